package unifiedexec

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// near is how late a busy machine may be.
const near = 4 * time.Second

// The shorter limits of waiting, with real processes that do not end. TestYieldLimits has the
// longer ones, with a fake clock.
// Scenario UE02.
func TestYieldWithRealProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	took := func(what string, got *Result, least time.Duration) {
		t.Helper()
		if got.WallTime < least || got.WallTime > least+near {
			t.Errorf("%s has waited %v, want %v", what, got.WallTime, least)
		}
	}
	first := r.exec(ExecArgs{Cmd: "exec sleep 60", Login: ptr(false), TTY: true, YieldTimeMs: ptr[int64](1)})
	id := wantRunning(t, first, "")
	took("exec_command", first, 250*time.Millisecond)
	took("write_stdin", r.stdin(id, "x", 1), 250*time.Millisecond)
	took("a poll", r.stdin(id, "", 1), 5*time.Second)
}

// The 65th session closes the least recently used one: its process is ended, and no other. A
// session that has exited is closed first; a session in use is not closed.
// Scenario UE14.
func TestPruningWithRealProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	start := func(cmd string) *Result {
		got, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: cmd, Login: ptr(false), YieldTimeMs: ptr[int64](1)})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	run := func() (id int, notes []string) {
		got := start("exec sleep 100")
		if got.SessionID == 0 {
			t.Errorf("the command has ended:\n%s", got.Text())
		}
		return got.SessionID, got.Notes
	}
	oldest, _ := run()
	second, _ := run()
	third, _ := run()
	exits := start("until [ -e go ]; do sleep 0.01; done")
	var starting sync.WaitGroup
	for range maxSessions - 4 {
		starting.Go(func() { run() })
	}
	starting.Wait()
	wantEnd(t, r.stdin(oldest, interruptChars, atEnd), 130, "") // now there is room for one session
	if id, notes := run(); len(notes) != 0 || id == oldest {
		t.Fatalf("there is room for one: %q", notes)
	}
	_, notes := run()
	want := fmt.Sprintf("session %d was closed: limit of 64 sessions", second)
	if len(notes) != 1 || notes[0] != want {
		t.Fatalf("the 65th session says %q, want %q", notes, want)
	}
	_, err := r.WriteStdin(tethertest.Within(t), StdinArgs{SessionID: second})
	wantError(t, err, ErrUnknownSession, fmt.Sprintf("write_stdin failed: Unknown process id %d: the session was closed by the limit of 64 sessions", second))

	s := r.peek(exits.SessionID)
	if err := os.WriteFile(filepath.Join(r.workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-ended(s.current())
	if _, notes := run(); len(notes) != 1 || !strings.Contains(notes[0], strconv.Itoa(exits.SessionID)) {
		t.Errorf("with a session that has exited: %q", notes)
	}
	busy := r.peek(third)                                      // now the least recently used
	if err := busy.lockFor(tethertest.Within(t)); err != nil { // as a call does
		t.Fatal(err)
	}
	_, notes = run()
	if len(notes) != 1 || strings.Contains(notes[0], strconv.Itoa(third)) {
		t.Errorf("with a session in use: %q", notes)
	}
	busy.unlock()
	r.wantRunningSessions(second, oldest, exits.SessionID)
}

// peek returns a session without using it.
func (r *rig) peek(id int) *session {
	r.Manager.mu.Lock()
	defer r.Manager.mu.Unlock()
	return r.sessions[id]
}

// wantRunningSessions waits until as many processes run as there may be sessions. Those of the
// given sessions must not be among them.
func (r *rig) wantRunningSessions(gone ...int) {
	r.t.Helper()
	tethertest.Eventually(r.t, func() error {
		alive := make(map[int]bool)
		for _, s := range r.Sessions() {
			alive[s.ID] = true
		}
		for _, id := range gone {
			if alive[id] {
				return fmt.Errorf("session %d is there", id)
			}
		}
		running := 0
		processes, err := r.client.Processes(tethertest.Within(r.t), "")
		for _, p := range processes {
			if p.State == wire.StateRunning {
				running++
			}
		}
		if running != maxSessions || len(alive) != maxSessions {
			return fmt.Errorf("%d processes of %d sessions run", running, len(alive))
		}
		return err
	})
}

// Each command has the limits of its environment.
func TestLimitsOfCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Environments[0].Limits = &wire.Limits{OpenFiles: ptr[uint64](77)} })
	if got := r.exec(ExecArgs{Cmd: "ulimit -n", Login: ptr(false)}); strings.TrimSpace(got.Output) != "77" {
		t.Errorf("%+v", got)
	}
}
