package unifiedexec

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// Scenario UE02.
func TestYieldLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(Config{Environments: []Environment{{ID: "e", Executor: &fake{}, Cwd: "/"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var id int
		for ms, want := range map[int64]time.Duration{-1: 10 * time.Second, 1: 250 * time.Millisecond, 99999: 30 * time.Second, 700: 700 * time.Millisecond} {
			args := ExecArgs{Cmd: "x", TTY: true, YieldTimeMs: &ms}
			if ms < 0 {
				args.YieldTimeMs = nil
			}
			r, err := m.ExecCommand(context.Background(), args)
			if err != nil {
				t.Fatal(err)
			}
			if r.WallTime != earlyExitGrace+want {
				t.Errorf("exec_command with yield %d takes %v, want %v", ms, r.WallTime, earlyExitGrace+want)
			}
			id = r.SessionID
		}
		for _, row := range []struct {
			chars string
			ms    int64
			want  time.Duration
		}{
			{"x", 1, 250 * time.Millisecond}, {"x", 99999, 30 * time.Second}, {"", 1, 5 * time.Second}, {"", 99999, 99999 * time.Millisecond},
			{"", math.MaxInt64, 5 * time.Minute},
		} {
			r, err := m.WriteStdin(context.Background(), StdinArgs{SessionID: id, Chars: row.chars, YieldTimeMs: &row.ms})
			if err != nil {
				t.Fatal(err)
			}
			want := row.want
			if row.chars != "" {
				want += writePause
			}
			if r.WallTime != want {
				t.Errorf("write_stdin %q with yield %d takes %v, want %v", row.chars, row.ms, r.WallTime, want)
			}
		}
		if execYield(ptr[int64](1), true) != 10*time.Second {
			t.Error("the least wait on Windows is not 10 s")
		}
	})
}

// The clock of one call is stopped while the user is asked about another command.
func TestYieldWaitsForTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(Config{
			Environments: []Environment{{ID: "e", Executor: &fake{}, Cwd: "/"}}, Policy: Policy{Mode: OnRequest},
			Approver: ApproverFunc(func(context.Context, Question) (Decision, error) {
				time.Sleep(time.Minute)
				return Declined, nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		go func() {
			time.Sleep(time.Second)
			m.ExecCommand(context.Background(), ExecArgs{Cmd: "rm -rf x"})
		}()
		r, err := m.ExecCommand(context.Background(), ExecArgs{Cmd: "x"})
		if err != nil || r.WallTime != earlyExitGrace+70*time.Second {
			t.Errorf("waited %v, %v", r.WallTime, err)
		}
	})
}

// The wall time of a result includes the question to the user and the start.
func TestWallTimeCountsFromTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fake{script: func(_ int, p *fakeProcess) {
			time.Sleep(3 * time.Second) // the executor is slow
			p.exits(client.Exit{})
			p.closes()
		}}
		m, err := New(Config{
			Environments: []Environment{{ID: "e", Executor: e, Cwd: "/"}}, Policy: Policy{Mode: OnRequest},
			Approver: ApproverFunc(func(context.Context, Question) (Decision, error) {
				time.Sleep(time.Minute)
				return Approved, nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for cmd, want := range map[string]time.Duration{"make": 3 * time.Second, "rm -rf x": 63 * time.Second} {
			if r, err := m.ExecCommand(context.Background(), ExecArgs{Cmd: cmd}); err != nil || r.WallTime != want {
				t.Errorf("%s: %v, %v; want %v", cmd, r, err, want)
			}
		}
	})
}

// After an exit the call waits for the end of the output: up to 50 ms, and not longer than its
// own time.
// Scenario U06.
func TestExitWaitsForClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fake{script: func(n int, p *fakeProcess) {
			p.prints("now")
			go func() {
				time.Sleep(time.Duration(n-1) * 380 * time.Millisecond)
				p.exits(client.Exit{Code: 3})
				if n == 1 {
					time.Sleep(30 * time.Millisecond)
					p.prints(" late")
					p.closes()
				}
			}()
		}}
		m, err := New(Config{Environments: []Environment{{ID: "e", Executor: e, Cwd: "/"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for i, want := range []struct {
			wall   time.Duration
			output string
		}{{30 * time.Millisecond, "now late"}, {earlyExitGrace + 250*time.Millisecond, "now"}} {
			r, err := m.ExecCommand(context.Background(), ExecArgs{Cmd: "x", YieldTimeMs: ptr[int64](250)})
			if err != nil || r.WallTime != want.wall || r.Output != want.output || r.ExitCode == nil {
				t.Errorf("command %d: %v\n%s", i+1, err, r.Text())
			}
		}
		synctest.Wait()
		for i, want := range []int{0, 1} { // only a process whose output has not ended is terminated
			if got := e.all()[i].terminations(); got != want {
				t.Errorf("process %d was terminated %d times, want %d", i+1, got, want)
			}
		}
	})
}

// Scenarios UE14 and U07.
func TestPruning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fake{}
		m, err := New(Config{Environments: []Environment{{ID: "e", Executor: e, Cwd: "/"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		run := func() *Result {
			r, err := m.ExecCommand(context.Background(), ExecArgs{Cmd: "x", TTY: true, YieldTimeMs: ptr[int64](1)})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		poll := func(id int) error {
			_, err := m.WriteStdin(context.Background(), StdinArgs{SessionID: id, Chars: "x"})
			return err
		}
		var ids []int
		for range maxSessions {
			r := run()
			ids = append(ids, r.SessionID)
			if len(r.Notes) > 0 {
				t.Fatalf("%v", r.Notes)
			}
		}
		if err := poll(ids[0]); err != nil { // so that the second is the oldest
			t.Fatal(err)
		}
		r := run()
		want := fmt.Sprintf("session %d was closed: limit of 64 sessions", ids[1])
		if len(r.Notes) != 1 || r.Notes[0] != want || !strings.Contains(r.Text(), "\nNote: "+want+"\nOutput:\n") {
			t.Errorf("the 65th session says:\n%s", r.Text())
		}
		wantError(t, poll(ids[1]), ErrUnknownSession, fmt.Sprintf("write_stdin failed: Unknown process id %d: the session was closed by the limit of 64 sessions", ids[1]))
		if err := poll(ids[0]); err != nil {
			t.Errorf("a session that was used: %v", err)
		}
		synctest.Wait()
		for i, p := range e.all() {
			if got := p.terminations(); (got == 1) != (i == 1) {
				t.Errorf("process %d was terminated %d times", i, got)
			}
		}
		// A session that has exited is closed first; a session in use is not closed.
		e.all()[20].exits(client.Exit{Code: 1})
		synctest.Wait()
		if r := run(); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], fmt.Sprint(ids[20])) {
			t.Errorf("with a session that has exited: %v", r.Notes)
		}
		go poll(ids[2]) // the least recently used until now; this poll locks it
		synctest.Wait()
		if r := run(); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], fmt.Sprint(ids[3])) {
			t.Errorf("with a session in use: %v", r.Notes)
		}
		if n := len(m.Sessions()); n != maxSessions {
			t.Errorf("%d sessions", n)
		}
	})
}

func TestChooseVictim(t *testing.T) {
	// Sessions 1 to n, the lowest least recently used.
	table := func(n int, exited, locked []int) []candidate {
		all := make([]candidate, n)
		for i := range all {
			all[i] = candidate{id: i + 1, used: uint64(i + 1)}
		}
		for _, id := range exited {
			all[id-1].exited = true
		}
		for _, id := range locked {
			all[id-1].locked = true
		}
		return all
	}
	for _, row := range []struct {
		name           string
		n              int
		exited, locked []int
		want           int
	}{
		{"the oldest", 64, nil, nil, 1},
		{"not a locked one", 64, nil, []int{1, 2}, 3},
		{"an exited one first", 64, []int{30, 40}, nil, 30},
		{"the next exited one", 64, []int{30, 40}, []int{30}, 40},
		{"no live one because the exited one is locked", 64, []int{30}, []int{30}, 0},
		{"not among the newest", 64, []int{57, 64}, nil, 1},
		{"only the newest are left", 8, []int{1}, nil, 0},
		{"all locked", 10, nil, []int{1, 2}, 0},
	} {
		if id, found := chooseVictim(table(row.n, row.exited, row.locked)); id != row.want || found != (row.want != 0) {
			t.Errorf("%s: %d, want %d", row.name, id, row.want)
		}
	}
}

// Each poll of a session returns the output since the poll before, and nothing twice.
func TestThreePollsReturnTheirMarkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fake{script: func(_ int, p *fakeProcess) {
			p.prints("begin\n")
			go func() {
				for i := range 3 {
					time.Sleep(5 * time.Second)
					p.prints(fmt.Sprintf("marker %d\n", i+1))
				}
				time.Sleep(5 * time.Second)
				p.exits(client.Exit{Code: 3})
				p.closes()
			}()
		}}
		m, err := New(Config{Environments: []Environment{{ID: "e", Executor: e, Cwd: "/"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		r, err := m.ExecCommand(context.Background(), ExecArgs{Cmd: "x", YieldTimeMs: ptr[int64](2500)})
		if err != nil {
			t.Fatal(err)
		}
		id := wantRunning(t, r, "begin\n")
		for i := range 3 {
			if r, err = m.WriteStdin(context.Background(), StdinArgs{SessionID: id, YieldTimeMs: ptr[int64](5000)}); err != nil {
				t.Fatal(err)
			}
			wantRunning(t, r, fmt.Sprintf("marker %d\n", i+1))
		}
		if r, err = m.WriteStdin(context.Background(), StdinArgs{SessionID: id, YieldTimeMs: ptr[int64](5000)}); err != nil {
			t.Fatal(err)
		}
		wantEnd(t, r, 3, "")
	})
}

// A model reads why a command was killed. The program that runs the tools gets the whole account.
func TestKilledForMemory(t *testing.T) {
	size := uint64(2 << 30)
	used := &wire.Usage{WallUs: 5, MemoryKill: &wire.MemoryKill{Processes: 1, Limit: wire.LimitCommand, Bytes: &size}}
	var ended *wire.Usage
	e := &fake{script: func(_ int, p *fakeProcess) {
		p.exits(client.Exit{Code: 137, Usage: used})
		p.closes()
	}}
	m, err := New(Config{Environments: []Environment{{ID: "e", Executor: e, Cwd: "/"}}, Observe: func(e Event) {
		if e.Kind == Ended {
			ended = e.Usage
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.ExecCommand(t.Context(), ExecArgs{Cmd: "make"})
	if err != nil {
		t.Fatal(err)
	}
	if text := r.Text(); !strings.Contains(text, "Process exited with code 137\n") || !strings.Contains(text, "\nNote: killed: memory limit of 2 GiB\n") || r.Usage != used {
		t.Errorf("%s\n%+v", text, r.Usage)
	}
	m.Close()
	if ended != used {
		t.Errorf("observed %+v", ended)
	}
}
