package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/wire"
)

func startParams(id string, argv ...string) *wire.StartParams {
	var cwd wire.Cwd
	if err := wire.Decode([]byte(`"/"`), &cwd); err != nil {
		panic(err)
	}
	return &wire.StartParams{ProcessID: id, Argv: argv, Cwd: cwd, Env: map[string]string{"PATH": "/usr/bin:/bin"}}
}

// starting adds a process whose start hangs in the system.
func starting(s *Session, id string) *Process {
	params := startParams(id, "true")
	command, err := launch.Check(params)
	if err != nil {
		panic(err)
	}
	p := s.newProcess(params)
	p.Command = command
	if err := p.open(nil); err != nil {
		panic(err)
	}
	if earlier, err := s.reserve(p); earlier != nil || err != nil {
		panic(err)
	}
	return p
}

func TestCallsWhileStarting(t *testing.T) {
	table := newTable(t, newSupervisor(t))
	defer table.Close()
	a := open(t, table, Options{})
	s := a.Session
	p := starting(s, "p")
	if _, err := a.Read(&wire.ReadParams{ProcessID: "p"}); !errors.Is(err, ErrProcessStarting) || err.Error() != "process id p is starting" {
		t.Errorf("read: %v", err)
	}
	s.Write(&wire.WriteParams{ProcessID: "p", WriteID: "w"}, func(status string, err error) {
		if status != wire.WriteStarting || err != nil {
			t.Errorf("write: %q, %v", status, err)
		}
	})
	if err := s.Signal("p", syscall.SIGINT, nil); err != nil {
		t.Errorf("signal: %v", err)
	}
	if _, err := s.StartProcess(startParams("p", "true"), nil, nil); !errors.Is(err, ErrProcessExists) {
		t.Errorf("second start: %v", err)
	}
	if !s.Terminate("p", true) {
		t.Error("terminate reports that a starting process does not run")
	}
	child, err := s.launcher.Start(t.Context(), p.Command, p.Log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.finishStart(p, child, nil); !errors.Is(err, ErrStartCancelled) || err.Error() != "process p start was cancelled" {
		t.Errorf("cancelled start: %v", err)
	}
	if _, running := child.Exited(); !running {
		t.Error("the child of a cancelled start lives on")
	}
	if _, err := s.StartProcess(startParams("p", "true"), nil, nil); err != nil {
		t.Errorf("the id is not free: %v", err)
	}
}

func TestRetryWaitsForTheFirstStart(t *testing.T) {
	table := newTable(t, newSupervisor(t))
	defer table.Close()
	s := open(t, table, Options{}).Session
	p := starting(s, "p")
	again := startParams("p", "true")
	yes := true
	again.Retry = &yes
	got := make(chan *Process)
	go func() {
		p, err := s.StartProcess(again, nil, nil)
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	select {
	case <-got:
		t.Fatal("the retry was answered before the first start")
	case <-time.After(20 * time.Millisecond): // too short a wait can miss a defect, but cannot report a false one
	}
	child, err := s.launcher.Start(t.Context(), p.Command, p.Log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.finishStart(p, child, nil); err != nil {
		t.Fatal(err)
	}
	if <-got != p {
		t.Error("the retry is another process")
	}
}

func TestEndKillsEverythingAndWaits(t *testing.T) {
	table := newTable(t, newSupervisor(t))
	s := open(t, table, Options{}).Session
	marks := t.TempDir()
	var pids []int
	for i := range 5 {
		file := filepath.Join(marks, fmt.Sprint(i))
		p, err := s.StartProcess(startParams(fmt.Sprint(i), "sh", "-c", `trap "" TERM HUP; sleep 100 & echo $! >`+file+`.x; mv `+file+`.x `+file+`; wait`), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, p.child.Pid())
		var text []byte
		for deadline := time.Now().Add(hang.Limit); len(text) == 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			text, _ = os.ReadFile(file)
		}
		var grandchild int
		if _, err := fmt.Sscan(string(text), &grandchild); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, grandchild)
	}
	s.End()
	for _, pid := range pids {
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(state), ") Z ") {
			t.Errorf("%d is alive: %s", pid, state)
		}
	}
	if _, err := s.StartProcess(startParams("late", "true"), nil, nil); !errors.Is(err, ErrEnded) {
		t.Errorf("start after the end: %v", err)
	}
	s.End() // again
}

func TestProcessesPerSessionAreLimited(t *testing.T) {
	table := newTable(t, newSupervisor(t))
	s := open(t, table, Options{}).Session
	child := finished(t)
	for i := range MaxProcesses {
		adopt(s, fmt.Sprint(i), child)
	}
	_, err := s.StartProcess(startParams("one more", "true"), nil, nil)
	if !errors.Is(err, ErrLimit) || err.Error() != "limit reached: 4096 processes in this session" {
		t.Errorf("start: %v", err)
	}
}

func TestSessionsAreLimited(t *testing.T) {
	table := newTable(t, nil)
	for range MaxSessions {
		open(t, table, Options{})
	}
	if _, err := table.Open(Options{}, newPeer()); !errors.Is(err, ErrLimit) || err.Error() != "limit reached: 10000 sessions" {
		t.Errorf("open: %v", err)
	}
	table.Close()
	if _, err := table.Open(Options{}, newPeer()); !errors.Is(err, ErrEnded) {
		t.Errorf("open after the end: %v", err)
	}
	if n := len(table.Of(Rights{Principal: ""})); n != 0 {
		t.Errorf("%d sessions left", n)
	}
}

func TestListedCommandLineIsBounded(t *testing.T) {
	many := make([]string, 10*listedArgv)
	for name, test := range map[string]struct{ argv, want []string }{
		"short":     {[]string{"a", "", "b c"}, []string{"a", "", "b c"}},
		"long":      {[]string{"a", strings.Repeat("x", 5*listedArgv), "b"}, []string{"a", strings.Repeat("x", listedArgv-2) + "…"}},
		"in a rune": {[]string{strings.Repeat("é", listedArgv-1), "b"}, []string{strings.Repeat("é", listedArgv/2) + "…"}},
		"many":      {many, append(slices.Clone(many[:listedArgv]), "…")},
	} {
		if got := shortArgv(test.argv, listedArgv); !slices.Equal(got, test.want) {
			t.Errorf("%s: %d arguments, %.100q", name, len(got), got)
		}
	}
}

// Processes that forgotten commands left running count only as long as they run.
func TestSurvivorsThatHaveEndedMakeRoom(t *testing.T) {
	table := newTable(t, newSupervisor(t))
	defer table.Close()
	s := open(t, table, Options{}).Session
	s.processes.leftovers = slices.Repeat([]*proc.Process{finished(t)}, MaxProcesses)
	if _, err := s.StartProcess(startParams("p", "true"), nil, nil); err != nil {
		t.Error(err)
	}
}

// The end of a session waits until the processes of a cancelled start are gone.
func TestEndWaitsForACancelledStart(t *testing.T) {
	procs := newSupervisor(t)
	s := open(t, newTable(t, procs), Options{}).Session
	p := starting(s, "p")
	p.params.Argv = []string{"sleep", "1000"}
	child, err := s.launcher.Start(t.Context(), p.Command, p.Log, nil)
	if err != nil {
		t.Fatal(err)
	}
	// While this test holds the output open, the kill takes a while.
	output, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", child.Pid()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	s.Terminate("p", true)
	ended := make(chan struct{}) // closed when the log has ended; the kill is next
	tell := sync.OnceFunc(func() { close(ended) })
	p.Log.OnAppend(func(bool) { tell() })
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		s.finishStart(p, child, nil)
	}()
	<-ended
	s.End()
	select {
	case <-child.Done():
	default:
		t.Error("the session has ended, and a process of it has not")
	}
	<-settled
}
