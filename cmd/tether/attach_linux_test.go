package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A user attaches to a process on a terminal, detaches, attaches again, and ends it.
func TestAttach(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	url := tethertest.StartServer(t, server.Config{}).URL
	cable := tethertest.LayCable(t, url)
	b.env = append(b.env, "TETHER_URL="+cable.URL(), "PS1=$ ", "ENV=")
	if got := b.tether(nil, "run", "-dte", "PS1", "-e", "ENV", "--name", "work", "--", "sh", "-i"); got.stdout != "work\n" {
		t.Fatalf("%+v", got)
	}
	s := newTestTerminal(t)
	t.Cleanup(s.leave)
	if err := pty.Setsize(s.master, &pty.Winsize{Rows: 12, Cols: 78}); err != nil {
		t.Fatal(err)
	}
	cmd := b.start(s, "attach", "work")
	s.until("$ ") // printed before the user attached
	s.typing("while ! stty size | grep 78; do sleep 0.1; done; X=kept; echo o''k\r")
	s.until("ok\r\n")
	cable.CutFor(0)
	s.typing("echo aft''er\r")
	s.until("after\r\n")
	s.until("$ ")
	s.typing("~.")
	s.until("\r\n") // the prompt of the user's shell gets a line of its own
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("left with %v", cmd.ProcessState)
	}

	cmd = b.start(s, "attach", "work")
	s.until("after\r\n") // shown again
	s.until("$ ")
	s.typing("echo =$X=; exit 6\r")
	s.until("=kept=")
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}

// Input reaches a command without a terminal, whose input was kept open.
func TestAttachToPipes(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.env = append(b.env, "TETHER_URL="+tethertest.StartServer(t, server.Config{}).URL)
	if got := b.tether(nil, "run", "-di", "--name", "adder", "--", "sh", "-c", "read a; read b; echo $((a+b)); exit 4"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := b.tether(strings.NewReader("20\n22\n"), "attach", "adder"); got.code != 4 || got.stdout != "42\n" {
		t.Errorf("%+v", got)
	}
}

// Without an address, detached commands run in the user's own server.
func TestDetachedCommandsRunInTheUsersServer(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.env = append(b.env, "ONLY_HERE=yes")
	if got := b.tether(nil, "ps", "--json"); got.code != 0 || strings.TrimSpace(got.stdout) != "[]" {
		t.Errorf("before: %+v", got)
	}
	if got := b.tether(nil, "run", "-d", "--name", "first", "--", "sh", "-c", "pwd; echo $ONLY_HERE; echo $PPID; exec sleep 1000"); got.stdout != "first\n" {
		t.Fatalf("%+v", got)
	}
	want := b.work + "\nyes\n"
	var got end
	for strings.Count(got.stdout, "\n") < 3 { // until it was all printed
		if got = b.tether(nil, "logs", "first"); got.code != 0 {
			t.Fatalf("%+v", got)
		}
	}
	rest, ok := strings.CutPrefix(got.stdout, want)
	server, err := strconv.Atoi(strings.TrimSpace(rest))
	if !ok || err != nil {
		t.Fatalf("%+v", got)
	}
	endLater(t, server)
	if got := b.tether(nil, "kill", "first"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := b.tether(nil, "logs", "-f", "first"); got.code != 0 { // until it has ended
		t.Errorf("%+v", got)
	}
}
