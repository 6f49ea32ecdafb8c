package proc

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/freezer"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// A safeBuffer is a log that several goroutines write.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A process that does not end although it was killed is reported with its state, until it ends.
func TestSurvivorOfAKill(t *testing.T) {
	for name, test := range map[string]struct {
		config Config
		script string
	}{
		"cgroup":                    {Config{}, `sleep 1000 & echo pid=$!; wait`},
		"table":                     {Config{NoCgroups: true}, `sleep 1000 & echo pid=$!; wait`},
		"the command itself":        {Config{}, `echo pid=$$; exec sleep 1000`},
		"the command itself, table": {Config{NoCgroups: true}, `echo pid=$$; exec sleep 1000`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cold := freezer.New(t)
			var log safeBuffer
			test.config.Log = slog.New(slog.NewTextHandler(&log, nil))
			s := newSupervisor(t, test.config)
			s.stuck = 10 * time.Millisecond
			p, sink := start(t, s, shell(test.script))
			pid := awaitPids(t, sink, 1)[0]
			cold.Freeze(pid)

			p.Terminate()
			awaitDone(t, p) // the close follows although the process is there
			if code, exited := p.Exited(); !exited || (pid == p.Pid()) != (code == -1) {
				t.Errorf("exit code %d, %v", code, exited)
			}
			left := p.Survivors()
			if len(left) != 1 || left[0].PID != pid || left[0].State != 'D' || left[0].Name == "" || !strings.Contains(left[0].Reason(), "cannot be interrupted") {
				t.Fatalf("%+v", left)
			}
			if text := log.String(); !strings.Contains(text, "killed processes are still there") || !strings.Contains(text, fmt.Sprintf("%d (%s, state D)", pid, left[0].Name)) {
				t.Errorf("the log says %q", text)
			}
			p.Kill() // as at the end of a session
			if left := p.Survivors(); len(left) != 1 || !p.Leftovers() {
				t.Errorf("after another kill: %+v", left)
			}
			cold.Thaw()
			awaitDeath(t, pid)
			if left := p.Survivors(); len(left) != 0 {
				t.Errorf("after its end: %+v", left)
			}
			p.Kill()
			if p.Leftovers() {
				t.Error("the process is not forgotten")
			}
		})
	}
}

// A process of another user, which this program may not signal, is reported. The test runs itself twice: as an ordinary user, who
// starts a program of root.
func TestSurvivorOfAnotherUser(t *testing.T) {
	t.Parallel()
	const variable, user = "TETHER_TEST_SURVIVOR", 1234
	switch role := os.Getenv(variable); role {
	case "":
	case "root":
		if err := unix.Setresuid(0, 0, 0); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("pid=%d\n", os.Getpid())
		t.Fatal(unix.Exec("/bin/sh", []string{"sh", "-c", "exec sleep 1000"}, os.Environ()))
	default:
		s := newSupervisor(t, Config{NoCgroups: true})
		s.stuck = 10 * time.Millisecond
		p, sink := start(t, s, shell(role))
		pid := awaitPids(t, sink, 1)[0]
		p.Kill()
		if left := p.Survivors(); len(left) != 1 || left[0].PID != pid || !strings.Contains(left[0].Reason(), "another user") {
			t.Errorf("%+v", left)
		}
		fmt.Printf("survivor %d\n", pid)
		return
	}
	need.Root(t, "to make a program that runs as root for another user")
	dir, err := os.MkdirTemp("", "tether-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"user": 0o755, "root": 0o755 | os.ModeSetuid} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(name, program, 0o700), os.Chmod(name, mode), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	const only = "-test.run=^TestSurvivorOfAnotherUser$"
	cmd := exec.Command(filepath.Join(dir, "user"), only)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), variable+"="+variable+"=root exec "+filepath.Join(dir, "root")+" '"+only+"'")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.CombinedOutput()
	_, rest, found := strings.Cut(string(out), "survivor ")
	var pid int
	if _, serr := fmt.Sscan(rest, &pid); serr == nil {
		unix.Kill(pid, unix.SIGKILL)
	}
	if err != nil || !found {
		t.Errorf("%v\n%s", err, out)
	}
}

// A tree whose processes fork while they are killed leaves none.
func TestKillOfATreeThatForks(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		dir := t.TempDir()
		// Each process starts the next one and goes on for a moment, so that there are always some that have just been forked. The
		// count bounds them if the test fails.
		script := `n=$1; [ $n -gt 0 ] || exit 0; echo $$ >>` + dir + `/pids; sh ` + dir + `/fork $((n-1)) & sh -c : ; exec sleep 1000`
		if err := os.WriteFile(filepath.Join(dir, "fork"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		p, _ := start(t, s, shell(`for i in 1 2 3; do sh `+dir+`/fork 300 & done; wait`))
		pids := func() []string {
			text, _ := os.ReadFile(filepath.Join(dir, "pids"))
			return strings.Fields(string(text))
		}
		for deadline := time.Now().Add(testTimeout); len(pids()) < 20; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the tree does not grow")
			}
		}
		p.Kill()
		if left := p.Survivors(); len(left) != 0 || p.Leftovers() {
			t.Errorf("left: %+v", left)
		}
		for _, text := range pids() {
			var pid int
			fmt.Sscan(text, &pid)
			if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.Contains(command, []byte("1000")) {
				if alive(pid) {
					t.Errorf("process %d is alive", pid)
				}
			}
		}
	})
}

// stuckTree is a tree that cannot be killed.
type stuckTree struct {
	tree
	left []Survivor
}

func (t *stuckTree) survivors() []Survivor { return t.left }

// All that a tree reports is logged and kept for lists, for as long as the processes are there.
func TestSurvivorsAreKept(t *testing.T) {
	var log safeBuffer
	s := newSupervisor(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	p, _ := start(t, s, shell(`exec sleep 1000`))
	own, ok := newSurvivor(os.Getpid()) // a process that is there
	if !ok {
		t.Fatal("this process is not described")
	}
	gone := Survivor{PID: own.PID, State: 'S', Name: "gone", started: "1"} // another process with this number
	p.child.tree = &stuckTree{p.child.tree, []Survivor{own, gone}}
	p.terminate(true) // a command that TERM has ended is not killed
	awaitDone(t, p)
	if left := p.Survivors(); len(left) != 1 || left[0].PID != own.PID || left[0].Name != own.Name {
		t.Errorf("%+v", left)
	}
	if text := log.String(); !strings.Contains(text, "gone, state S") {
		t.Errorf("the log says %q", text)
	}
}
