package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A storm is a server whose workers die all the time while clients use it.
type storm struct {
	*keptServer
	cable  *cable.Cable
	dir    string
	marker string // in the environment of all commands

	sandbox *wire.Sandbox // nil: there is none on this machine

	commands, deaths, cuts atomic.Int64
}

// Workers are killed at random moments, or die behind a random lasting effect, and connections are cut, while clients run
// commands: each command runs once, with all of its output and input, and its exit code. In the end nothing is left.
func TestKeeperStorm(t *testing.T) {
	tethertest.SoakOnly(t)
	t.Parallel()
	effects := tethertest.Scaled("~600", "~5000") // with more clients, a worker needs more to let all of them resume
	for _, row := range []struct {
		name string
		env  []string
		kill bool
	}{
		{"kills", nil, true},
		{"crash points", []string{crash.Variable + "=" + effects}, false},
		{"panics", []string{crash.Variable + "=" + effects + ",panic"}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			server := startKept(t, row.env...)
			s := &storm{keptServer: server, cable: tethertest.LayCable(t, server.url), dir: t.TempDir()}
			s.marker = "TETHER_STORM=" + s.dir
			s.useSandbox(t)
			server.awaitWorker(t, 0)
			s.rage(t, tethertest.Scaled(10*time.Second, 2*time.Minute), row.kill)
			t.Logf("%d commands, %d deaths, %d cuts", s.commands.Load(), s.deaths.Load(), s.cuts.Load())
			if s.deaths.Load() < 2 {
				t.Error("no worker has died")
			}
			s.checkEmpty(t)
			if row.env == nil {
				s.stop(t)
			}
		})
	}
}

// useSandbox finds out whether this machine has sandboxes.
func (s *storm) useSandbox(t *testing.T) {
	flags := sandboxFlags{profile: "workspace-write", flag: "--sandbox"}
	intent, err := flags.intent(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Log("no sandboxed commands: ", err)
		return
	}
	s.sandbox = intent
}

// rage lets clients work for a time, and disturbs them meanwhile.
func (s *storm) rage(t *testing.T, d time.Duration, kill bool) {
	clients := tethertest.Scaled(4, 20)
	over := make(chan struct{})
	var working, disturbing sync.WaitGroup
	deadline := time.Now().Add(d)
	for n := range clients {
		working.Go(func() { s.work(t, n, deadline) })
	}
	disturbing.Go(func() {
		for every(over, 300*time.Millisecond, 900*time.Millisecond) {
			s.cable.CutFor(10 * time.Millisecond)
			s.cuts.Add(1)
		}
	})
	last := 0
	disturbing.Go(func() {
		for n := 1; time.Now().Before(deadline) && every(over, 20*time.Millisecond, 300*time.Millisecond); n++ {
			if n%5 == 0 && !every(over, time.Second, 2*time.Second) { // a sandboxed command needs that to start
				return
			}
			pid := s.worker()
			if pid != 0 && pid != last {
				s.deaths.Add(1)
				last = pid
			}
			if kill && pid != 0 {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	working.Wait()
	close(over)
	disturbing.Wait()
}

// every waits for a random time, and reports whether it should go on.
func every(over <-chan struct{}, least, most time.Duration) bool {
	select {
	case <-over:
		return false
	case <-time.After(least + rand.N(most-least)):
		return true
	}
}

// work runs commands in a session until the deadline.
func (s *storm) work(t *testing.T, number int, deadline time.Time) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Until(deadline)+2*time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, s.cable.URL(), client.Options{Wait: 30 * time.Second, TTL: 10 * time.Minute})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for i := 0; time.Now().Before(deadline) && !t.Failed(); i++ {
		name := fmt.Sprintf("%d-%d", number, i)
		if err := s.command(ctx, c, name, i%4); err != nil {
			t.Errorf("command %s: %v", name, err)
		}
		s.commands.Add(1)
	}
	if err := c.End(ctx); err != nil {
		t.Error(err)
	}
}

// command runs one command and checks all that it does: it prints numbered lines on a pipe, on a terminal or in a sandbox, or
// echoes its input.
func (s *storm) command(ctx context.Context, c *client.Client, name string, kind int) error {
	count := filepath.Join(s.dir, name)
	lines := 1 + rand.IntN(3000)
	code := rand.IntN(100)
	script := fmt.Sprintf("echo once >>%s; seq %d; exit %d", count, lines, code)
	cmd := client.Command{ID: name, TTY: kind == 1, Stdin: kind == 2, Env: map[string]string{}}
	key, value, _ := strings.Cut(s.marker, "=")
	cmd.Env[key] = value
	if kind == 2 {
		lines = 1 + rand.IntN(100)
		script = fmt.Sprintf("echo once >>%s; cat; exit %d", count, code)
	}
	if kind == 3 && s.sandbox != nil {
		cmd.Sandbox, cmd.Dir = s.sandbox, s.dir
	}
	cmd.Argv = []string{"sh", "-c", script}
	p, err := c.Start(ctx, cmd)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if kind == 2 {
		for i := 1; i <= lines; i++ {
			if err := p.Write(ctx, fmt.Appendln(nil, i)); err != nil {
				return fmt.Errorf("write %d: %w", i, err)
			}
		}
		if err := p.CloseStdin(ctx); err != nil {
			return fmt.Errorf("end of input: %w", err)
		}
	}
	var out bytes.Buffer
	exit, err := p.CopyOutput(ctx, &out, io.Discard)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if exit.Code != code {
		return fmt.Errorf("exit code %d instead of %d", exit.Code, code)
	}
	var want bytes.Buffer
	for i := 1; i <= lines; i++ {
		fmt.Fprintln(&want, i)
	}
	if got := bytes.ReplaceAll(out.Bytes(), []byte("\r\n"), []byte("\n")); !bytes.Equal(got, want.Bytes()) {
		return fmt.Errorf("%d bytes of output instead of %d (kind %d)", len(got), want.Len(), kind)
	}
	if text, err := os.ReadFile(count); err != nil || string(text) != "once\n" {
		return fmt.Errorf("it has run %d times: %w", bytes.Count(text, []byte("\n")), err)
	}
	return os.Remove(count)
}

// checkEmpty checks that no process of a command is left, and that the keeper holds as many descriptors as before.
func (s *storm) checkEmpty(t *testing.T) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range environs {
			if text, _ := os.ReadFile(name); bytes.Contains(text, []byte(s.marker)) {
				return fmt.Errorf("a command is left: %s", name)
			}
		}
		held, err := os.ReadDir("/proc/" + strconv.Itoa(s.Process.Pid) + "/fd")
		if err != nil || len(held) > heldIdle {
			return fmt.Errorf("the keeper holds %d descriptors, %w", len(held), err)
		}
		return nil
	})
}

// heldIdle is how many descriptors a keeper has for itself, its worker and the server as a whole.
const heldIdle = 20
