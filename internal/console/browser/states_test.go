package browser

import (
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest/need"
	"github.com/tetherexec/tether/wire"
)

// state is the state in the row of a command.
func state(text string) string {
	return `[...document.querySelectorAll(".row.command")].find((row) => row.textContent.includes("` + text + `"))?.querySelector(".command-state").textContent`
}

// The list tells apart why commands are silent, and the facts tell what the sandbox and the network have refused.
func TestStates(t *testing.T) {
	t.Parallel()
	r := newServerWith(t, console.Config{}, server.Config{SpoolLimit: 1 << 20})
	slow, line := r.agent("slow client", "slow")
	line.Freeze(cable.FromServer)
	go slow.Start(t.Context(), client.Command{Argv: []string{"cat", "/dev/zero"}}) // its answer never comes; it ends with the test
	away, cut := r.agent("lost client", "away")
	if _, err := away.Start(t.Context(), client.Command{Argv: []string{"sleep", "100"}}); err != nil {
		t.Fatal(err)
	}
	cut.Cut()
	r.start(client.Command{Argv: []string{"sh", "-c", "read -r line"}, TTY: true})
	r.open(r.url)
	r.wait("the command that waits", state("read -r")+`?.startsWith("waiting for input")`)
	r.wait("the command whose output is not read", state("/dev/zero")+` === "blocked: output not read"`)
	r.wait("its output", `[...document.querySelectorAll(".command-figures")].some((e) => e.textContent.endsWith(" waits"))`)
	r.wait("the client that is away", `[...document.querySelectorAll(".session-state")].some((e) => e.textContent.startsWith("away, ends in"))`)

	_, err := r.client.Start(t.Context(), client.Command{
		Argv:    []string{"sh", "-c", "env | grep -i -q ^http_proxy=; cp /etc/passwd /etc/tether-test-copy"},
		Sandbox: wire.ReadOnly(), Network: &client.Network{Allow: []string{"packages.example"}},
	})
	if err != nil {
		need.CannotRun(t, "no sandbox: %v", err)
	}
	r.wait("the refusal", state("tether-test-copy")+` === "refused by the sandbox"`)
	r.choose("tether-test-copy")
	r.wait("what was refused", `document.querySelector("#facts").textContent.includes("to write /etc/tether-test-copy")`)
	facts := eval[string](r, `document.querySelector("#facts").textContent`)
	for _, want := range []string{"allowed: packages.example", "readable: everything", "build agent"} {
		if !strings.Contains(facts, want) {
			t.Errorf("the facts have no %q:\n%s", want, facts)
		}
	}
	r.clean()
}
