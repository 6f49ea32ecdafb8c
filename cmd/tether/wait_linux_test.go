package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// agent connects a client that is not the tether command, and starts a process called p.
func agent(t *testing.T, url, script string) (*client.Client, *client.Process) {
	t.Helper()
	c, err := client.Dial(tethertest.Within(t), url, client.Options{Name: "agent", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	p, err := c.Start(tethertest.Within(t), client.Command{ID: "p", Argv: []string{"sh", "-c", script}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	return c, p
}

// A process may exit during an outage of `tether wait`, and its exit event may be dropped before the
// connection is back. tether wait still returns the exit code.
func TestWaitForAnExitThatIsNoLongerKept(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	s := tethertest.StartServer(t, server.Config{Retain: 1})
	cable := tethertest.LayCable(t, s.URL)
	gate := filepath.Join(b.work, "gate")
	c, p := agent(t, s.URL, "until [ -e "+gate+" ]; do sleep 0.02; done; head -c 8000000 /dev/zero & exit 7")
	eventually := func(is func(wire.ProcessInfo) bool) {
		t.Helper()
		tethertest.Eventually(t, func() error {
			if all, err := c.Processes(t.Context(), ""); err != nil || len(all) != 1 || !is(all[0]) {
				return fmt.Errorf("the processes are %+v, %v", all, err)
			}
			return nil
		})
	}
	waiting := b.command("wait", "--quiet", "--url", cable.URL(), "p")
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(func(p wire.ProcessInfo) bool { return p.Observers == 1 })
	cable.Cut()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.CopyOutput(tethertest.Within(t), io.Discard, nil); err != nil {
		t.Fatal(err)
	}
	eventually(func(p wire.ProcessInfo) bool { return p.DroppedBytes > 0 })
	cable.Mend()
	if waiting.Wait(); waiting.ProcessState.ExitCode() != 7 {
		t.Errorf("tether wait: %v", waiting.ProcessState)
	}
}

// `tether rm` is for commands of `tether run --detach`. It does not end the session of a client that
// has lost its connection.
func TestRmLeavesOtherClientsAlone(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	s := tethertest.StartServer(t, server.Config{})
	c, p := agent(t, s.URL, "exit 0")
	if _, err := p.Wait(tethertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	session := c.SessionID()
	c.Close() // the session stays
	got := b.tether(nil, "rm", "--force", "--url", s.URL, "p")
	if got.code == 0 || !strings.Contains(got.stderr, "belongs to a session of agent") {
		t.Errorf("%+v", got)
	}
	again, err := client.Dial(tethertest.Within(t), s.URL, client.Options{Name: "agent", Resume: session})
	if err != nil {
		t.Fatalf("the session is gone: %v", err)
	}
	again.End(tethertest.Within(t))
	again.Close()
}
