package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// A server that is told to stop just after its worker was killed ends in order, and leaves nothing: neither commands nor state.
func TestStopAfterWorker(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{false, true} {
		s := startKeeper(t, nil)
		c := dialKept(t, s.url)
		_, pid := startSleep(t, c, "p")
		worker := s.awaitWorker(t, 0)
		syscall.Kill(worker, syscall.SIGKILL)
		if wait {
			s.awaitWorker(t, worker) // it does not serve yet
		}
		s.stop(t)
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the command has outlived the server: %v", err)
		}
	}
}

// A worker that hangs is replaced, with --replace-frozen.
func TestFrozenWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	s := startKeeper(t, nil, "--replace-frozen", "1s")
	c := dialKept(t, s.url)
	p := startEcho(t, c)
	worker := s.awaitWorker(t, 0)
	syscall.Kill(worker, syscall.SIGSTOP)
	s.awaitWorker(t, worker)
	checkEcho(t, p)
	s.stop(t)
}

// startEcho starts a command that prints a line that it reads.
func startEcho(t *testing.T, c *client.Client) *client.Process {
	t.Helper()
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "echo begin; read x; echo $x; exit 4"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// checkEcho lets it end.
func checkEcho(t *testing.T, p *client.Process) {
	t.Helper()
	if err := p.Write(t.Context(), []byte("input\n")); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if exit, err := p.CopyOutput(t.Context(), &out, io.Discard); err != nil || exit.Code != 4 || out.String() != "begin\ninput\n" {
		t.Errorf("%+v, %v, %q", exit, err, out.String())
	}
}

// A command that forks all the time while workers die runs to its end, and all its children are reaped.
func TestForksWhileWorkersDie(t *testing.T) {
	t.Parallel()
	s := startKept(t)
	c := dialKept(t, s.url)
	const lines = 300
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); (sh -c 'exit 0' &); (echo $i); done; exit 3", lines)
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	killing := make(chan int)
	go func() { killing <- s.killWhileRunning(t, 5, 50*time.Millisecond, done) }()
	var out bytes.Buffer
	exit, err := p.CopyOutput(t.Context(), &out, io.Discard)
	close(done)
	if killed := <-killing; err != nil || exit.Code != 3 || killed == 0 {
		t.Errorf("%+v, %v, %d workers were killed", exit, err, killed)
	}
	checkNumbered(t, "p", out.String(), lines)
	tethertest.Eventually(t, func() error {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.Process.Pid))
		if n := len(strings.Fields(string(list))); err != nil || n != 1 {
			return fmt.Errorf("the keeper has %d children instead of its worker, %w", n, err)
		}
		return nil
	})
	s.stop(t)
}

// Two servers with keepers share a state directory. One that starts and ends does not disturb the other one, whose worker dies
// meanwhile.
func TestTwoKeepersShareADirectory(t *testing.T) {
	t.Parallel()
	state := "XDG_STATE_HOME=" + t.TempDir()
	one := startKept(t, state)
	p := startEcho(t, dialKept(t, one.url))
	worker := one.awaitWorker(t, 0)
	syscall.Kill(worker, syscall.SIGKILL)
	two := startKept(t, state)
	other := dialKept(t, two.url)
	q := startEcho(t, other)
	one.killWorker(t)
	two.killWorker(t)
	checkEcho(t, q)
	two.Process.Signal(syscall.SIGTERM)
	two.Wait()
	one.killWorker(t)
	checkEcho(t, p)
	one.stop(t)
}

// If there are no descriptors for a further command, its start is refused, and the others go on, also after the death of the
// worker.
func TestKeeperOutOfDescriptors(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := awaitKeeper(t, startProgram(t, []string{hastyVariable + "=1"},
		exec.CommandContext(t.Context(), "sh", "-c", `ulimit -n 150; exec "$0" serve --keeper`, self)))
	c := dialKept(t, s.url)
	var running []*client.Process
	start := func() error {
		p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "echo begin; read x; echo $x; exit 4"}, Stdin: true})
		if err == nil {
			running = append(running, p)
		}
		return err
	}
	for len(running) < 5 { // the server tries its sandbox soon after its start, and needs descriptors for that
		tethertest.Eventually(t, start)
	}
	for err := error(nil); err == nil; {
		if err = start(); err != nil {
			t.Logf("after %d commands: %v", len(running), err)
		} else if len(running) == 100 {
			t.Fatal("100 commands were started")
		}
	}
	s.killWorker(t)
	for _, p := range running {
		checkEcho(t, p)
	}
	checkEcho(t, startEcho(t, c))
	s.stop(t)
}

// When the disk of the state directory is full, a command waits, and goes on when there is room again. The death of the worker
// changes nothing.
func TestFullDiskWithKeeper(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=3m"); err != nil {
		need.CannotRun(t, "a small disk cannot be mounted (are you root?): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s := startKept(t, "XDG_STATE_HOME="+disk)
	c := dialKept(t, s.url)
	const lines = 1_500_000 // 10 MB
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", fmt.Sprintf("seq %d; exit 3", lines)}})
	if err != nil {
		t.Fatal(err)
	}
	other := dialKept(t, s.url)
	blocked := func() error {
		list, err := other.Processes(t.Context(), "")
		if err != nil || len(list) != 1 || !list[0].Blocked {
			return fmt.Errorf("the command does not wait: %+v, %w", list, err)
		}
		return nil
	}
	ballast := filepath.Join(disk, "ballast")
	fillDisk(t, ballast)
	tethertest.Eventually(t, blocked)
	s.killWorker(t)
	tethertest.Eventually(t, blocked)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if exit, err := p.CopyOutput(t.Context(), &out, io.Discard); err != nil || exit.Code != 3 {
		t.Errorf("%+v, %v", exit, err)
	}
	checkNumbered(t, "p", out.String(), lines)
	s.stop(t)
}

// fillDisk leaves no space on a small disk.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
