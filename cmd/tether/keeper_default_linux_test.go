package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// The user's own server, which `run --detach` starts, has a keeper: a command survives the worker that has started it.
func TestDetachedCommandSurvivesItsServer(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	gate := b.work + "/gate"
	script := fmt.Sprintf("echo $PPID; until [ -e %s ]; do sleep 0.05; done; echo last; exit 7", gate)
	if got := b.tether(nil, "run", "-d", "--name", "survivor", "--", "sh", "-c", script); got.stdout != "survivor\n" {
		t.Fatalf("%+v", got)
	}
	var worker int
	tethertest.Eventually(t, func() error {
		got := b.tether(nil, "logs", "survivor")
		if _, err := fmt.Sscan(got.stdout, &worker); err != nil {
			return fmt.Errorf("%+v: %w", got, err)
		}
		return nil
	})
	endLater(t, parent(t, worker))
	syscall.Kill(worker, syscall.SIGKILL)
	if got := b.tether(nil, "ps"); got.code != 0 || !strings.Contains(got.stdout, "survivor") {
		t.Errorf("after the death of the worker: %+v", got)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := b.tether(nil, "logs", "-f", "survivor"); got.code != 0 || got.stdout != fmt.Sprintf("%d\nlast\n", worker) {
		t.Errorf("%+v", got)
	}
	if got := b.tether(nil, "wait", "survivor"); got.code != 7 {
		t.Errorf("%+v", got)
	}
}

// endLater ends a server when the test ends, and waits for it: the directories of the test go next.
func endLater(t *testing.T, server int) {
	t.Cleanup(func() {
		syscall.Kill(server, syscall.SIGTERM)
		tethertest.Eventually(t, func() error {
			if runs(server) {
				return errors.New("the server is still there")
			}
			return nil
		})
	})
}

// parent returns the parent of a process.
func parent(t *testing.T, pid int) (parent int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		_, err = fmt.Sscan(string(stat[strings.LastIndexByte(string(stat), ')')+4:]), &parent)
	}
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// With --no-keeper a server is one process.
func TestServeWithoutKeeper(t *testing.T) {
	t.Parallel()
	p := startTether(t, "serve", "--no-keeper")
	b := newTestEnv(t)
	got := b.tether(nil, "run", "--url", p.line(t), "--", "sh", "-c", "echo $PPID")
	if got.code != 0 || got.stdout != fmt.Sprintln(p.Process.Pid) {
		t.Errorf("the server is %d, a command has the parent %+v", p.Process.Pid, got)
	}
	p.Process.Signal(syscall.SIGTERM)
	p.endsWith(t, 0)
	b.wantStderr(exitError, "tether: `--keeper` and `--no-keeper` exclude each other\n", "serve", "--keeper", "--no-keeper")
}

// A server whose token comes through a pipe reads it once, so it has no keeper.
func TestTokenFromPipeIsReadOnce(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "token")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newTestEnv(t)
	b.env = append(b.env, "TETHER_TOKEN=secret-of-the-test")
	p := startTether(t, "serve", "--ws-auth", "capability-token", "--ws-token-file", fifo)
	if err := os.WriteFile(fifo, []byte("secret-of-the-test"), 0o600); err != nil { // waits for the reader
		t.Fatal(err)
	}
	got := b.tether(nil, "run", "--url", p.line(t), "--", "sh", "-c", "echo $PPID")
	if got.code != 0 || got.stdout != fmt.Sprintln(p.Process.Pid) {
		t.Errorf("the server is %d, a command has the parent %+v", p.Process.Pid, got)
	}
	p.Process.Signal(syscall.SIGTERM)
	p.endsWith(t, 0)
}

// A server that cannot print its URL says so and leaves nothing.
func TestURLCannotBePrinted(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	socket := filepath.Join(b.tmp, "t.sock")
	cmd := b.command("serve", "--listen", "unix://"+socket)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &stderr
	err = cmd.Run()
	w.Close()
	if cmd.ProcessState.ExitCode() != exitError || !strings.Contains(stderr.String(), "print URL: ") {
		t.Errorf("%v: %s", err, &stderr)
	}
	b.isEmpty()
}
