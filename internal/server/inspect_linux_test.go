package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/sandbox/bwrap"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// stateOf asks what a process is doing.
func stateOf(t *testing.T, c *tethertest.Client, id string) wire.StateResult {
	t.Helper()
	m := c.Call("tether/process/state", map[string]any{"processId": id})
	var r wire.StateResult
	if m.Error != nil {
		t.Fatal(m.Error)
	}
	if err := wire.Decode(m.Result, &r); err != nil {
		t.Fatalf("%s: %v", m.Raw, err)
	}
	return r
}

// awaitState asks until a process is in the expected state.
func awaitState(t *testing.T, c *tethertest.Client, id, activity, text string) wire.StateDetail {
	t.Helper()
	var d wire.StateDetail
	tethertest.Eventually(t, func() error {
		if d = stateOf(t, c, id).StateDetail; d.Activity != activity || !strings.Contains(d.Text, text) {
			return fmt.Errorf("%+v; want %s, %q", d, activity, text)
		}
		return nil
	})
	return d
}

var pipeStdin, tty = map[string]any{"pipeStdin": true}, map[string]any{"tty": true}

func TestStateOfRealProcesses(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	for _, tt := range []struct {
		name     string
		argv     []string
		more     map[string]any
		activity string
		text     string // part of the description
		saw      string // part of the first evidence
	}{
		{"cat on a pipe", []string{"cat"}, pipeStdin, wire.ActivityWaitingForInput, "cat (pid", "fd 0 (its input)"},
		{"cat on a terminal", []string{"cat"}, tty, wire.ActivityWaitingForInput, "waits for input on its terminal", "in read fd 0 (its terminal)"},
		{"read in a shell", []string{"sh", "-c", "read x"}, pipeStdin, wire.ActivityWaitingForInput, "sh (pid", "in read fd 0 (its input)"},
		{"a child of a child", []string{"sh", "-c", "(cat; true); true"}, pipeStdin, wire.ActivityWaitingForInput, "cat (pid", "fd 0 (its input)"},
		{"the controlling terminal", []string{"sh", "-c", "read x </dev/tty"}, tty, wire.ActivityWaitingForInput, "on its terminal", "fd 0 (its terminal)"},
		{"an interactive shell", []string{"sh", "-i"}, tty, wire.ActivityWaitingForInput, "on its terminal", "(its terminal)"},
		{"sleep", []string{"sh", "-c", "sleep 1000; true"}, pipeStdin, wire.ActivitySleeping, "sleep (pid", "in clock_nanosleep"},
		{"a busy loop", []string{"sh", "-c", "while :; do :; done"}, nil, wire.ActivityUsingCPU, "sh (pid", "state R"},
		{"a full pipe", []string{"sh", "-c", "yes | (sleep 1000; true)"}, nil, wire.ActivityBlockedOnPipe, "yes (pid", "in write fd 1 (a pipe of pid"},
		{"an empty pipe", []string{"sh", "-c", "sleep 1000 | cat; true"}, nil, wire.ActivityBlockedOnPipe, "held by sleep (pid", "fd 0 (a pipe of pid"},
		{"output that is held", []string{"sh", "-c", "sleep 1000 & exit 3"}, nil, wire.ActivityOutputHeld, "sleep (pid", "in clock_nanosleep"},
		{"a stopped process", []string{"sh", "-c", "kill -STOP $$"}, nil, wire.ActivityStopped, "stopped by a signal", "state T"},
		{"a stopped child", []string{"sh", "-c", "sh -c 'kill -STOP $$'; true"}, nil, wire.ActivityStopped, "stopped by a signal", "state T"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := strings.ReplaceAll(tt.name, " ", "-")
			c.Start(tethertest.Command(id, tt.argv, tt.more))
			var d wire.StateDetail
			// The state may be reported before the process has reached its final state, and
			// on a busy machine the inspection may have been cut short.
			tethertest.Eventually(t, func() error {
				if d = awaitState(t, c, id, tt.activity, tt.text); d.Partial || len(d.Evidence) == 0 || !strings.Contains(d.Evidence[0].Saw, tt.saw) {
					return fmt.Errorf("%+v, want evidence %q", d, tt.saw)
				}
				return nil
			})
			if d.Source != wire.SourceSystem {
				t.Errorf("%+v", d)
			}
			if age := time.Since(time.UnixMilli(d.AsOfMs)); age < 0 || age > time.Minute {
				t.Errorf("as of %d", d.AsOfMs)
			}
			p, err := c.Listed(id)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.activity == wire.ActivityBlockedOnPipe || tt.activity == wire.ActivityOutputHeld:
				if d.HolderPID == nil || d.HolderCommand == nil || *d.HolderPID == p.PID {
					t.Errorf("no holder in: %+v", d)
				}
			case d.PID == nil || *d.PID != d.Evidence[0].PID || *d.Command != d.Evidence[0].Command:
				t.Errorf("seen at %+v", d)
			}
			signal := map[string]any{"processId": id, "signal": "CONT"}
			c.Must("tether/process/signal", signal, nil)
			c.Terminate(id)
			for c.AwaitEvent(id).Method != "process/closed" {
			}
			if r := stateOf(t, c, id); r.State != wire.StateClosed || r.StateDetail.Activity != wire.ActivityEnded || r.StateDetail.Source != wire.SourceServer {
				t.Errorf("after its end: %+v", r)
			}
		})
	}
}

// Python waits for a line with a select, a poll and an epoll.
func TestStateOfPollers(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	for id, tt := range map[string]struct{ code, activity, text string }{
		"input":   {"input()", wire.ActivityWaitingForInput, "on stdin"},
		"select":  {"import select; select.select([0],[],[])", wire.ActivityWaitingForInput, "on stdin"},
		"poll":    {"import select; p = select.poll(); p.register(0, select.POLLIN); p.poll()", wire.ActivityWaitingForInput, "on stdin"},
		"epoll":   {"import select; p = select.epoll(); p.register(0, select.EPOLLIN); p.poll()", wire.ActivityWaitingForInput, "on stdin"},
		"own":     {"import os, select; r, w = os.pipe(); select.select([0, r],[],[])", wire.ActivityWaitingForInput, "on stdin"},
		"both":    {"import select, socket; s = socket.create_server(('127.0.0.1', 0)); select.select([0, s],[],[])", wire.ActivityWaitingForEvents, "events of: stdin, a socket"},
		"network": {"import socket; s = socket.create_server(('127.0.0.1', 0)); s.accept()", wire.ActivityWaitingOnNetwork, "socket"},
		"thread":  {"import threading; t = threading.Thread(target=input); t.start(); threading.Lock().acquire(); t.join()", wire.ActivityWaitingForInput, "on stdin"},
		"child":   {"import os, time; p = os.fork() or time.sleep(1000); os.waitpid(p, 0)", wire.ActivitySleeping, "sleeps"},
		"zombie":  {"import subprocess, time; p = subprocess.Popen(['true']); time.sleep(1000)", wire.ActivitySleeping, "sleeps"},
	} {
		t.Run(id, func(t *testing.T) {
			c.Start(tethertest.Command(id, []string{python, "-c", tt.code}, pipeStdin))
			awaitState(t, c, id, tt.activity, tt.text)
			c.Terminate(id)
		})
	}
}

// Processes in a sandbox have other pids and other terminals there. They are
// described with the pids outside.
func TestStateInASandbox(t *testing.T) {
	if _, err := bwrap.Find(bwrap.Dirs); err != nil && os.Getenv("CI") == "" {
		t.Skip("this needs bubblewrap:", err)
	}
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	sandbox := json.RawMessage(`{"mode":"require","policy":{"type":"read-only"},"sandboxPolicyCwd":"/"}`)
	for id, more := range map[string]map[string]any{
		"pipe": {"pipeStdin": true, "sandbox": sandbox},
		"tty":  {"tty": true, "sandbox": sandbox},
	} {
		c.Start(tethertest.Shell(id, "cat; true", more))
		d := awaitState(t, c, id, wire.ActivityWaitingForInput, "cat (pid ")
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", *d.PID))
		if err != nil || string(name) != "cat\n" {
			t.Errorf("%s: pid %d is %q, %v", id, *d.PID, name, err)
		}
		c.Terminate(id)
	}
}

// Silence counts from the last output. A process that waits because its client
// takes no output is distinguished from one that works.
func TestStateOfOutputThatIsNotRead(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{SpoolLimit: 4 << 20})
	c := tethertest.Dial(t, s.URL)
	hello := c.HandshakeWith(map[string]any{"clientName": "test", "tether": map[string]any{"acks": true}})
	c.Start(tethertest.Shell("p", "yes; true", nil))
	other := tethertest.Connect(t, s.URL)
	var r wire.StateResult
	tethertest.Eventually(t, func() error {
		m := other.Call("tether/process/state", map[string]any{"sessionId": hello.Tether.PublicID, "processId": "p"})
		if err := wire.Decode(m.Result, &r); err != nil {
			t.Fatal(err)
		}
		if d := r.StateDetail; d.Activity != wire.ActivityOutputNotRead || d.Command == nil || *d.Command != "yes" {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	if !strings.Contains(r.StateDetail.Text, "its client does not read its output") {
		t.Errorf("%+v", r)
	}
	c.Terminate("p")
}

func TestStateCountsSilence(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Shell("p", "echo x; sleep 1000", nil))
	c.AwaitEvent("p")
	tethertest.Eventually(t, func() error {
		d := stateOf(t, c, "p").StateDetail
		if d.SilentMs < 1000 || !strings.HasSuffix(d.Text, fmt.Sprintf("; no output for %d s", d.SilentMs/1000)) {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	c.Terminate("p")
}

// A list has the same states, without evidence, and none of processes that have
// ended.
func TestListShowsStates(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Command("cat", []string{"cat"}, pipeStdin))
	c.Start(tethertest.Command("true", []string{"true"}, nil))
	c.Finish("true", 0)
	awaitState(t, c, "cat", wire.ActivityWaitingForInput, "")
	m := c.Call("tether/process/list", map[string]any{})
	var list wire.ListResult
	if err := wire.Decode(m.Result, &list); err != nil || len(list.Processes) != 2 {
		t.Fatalf("%s: %v", m.Raw, err)
	}
	for _, p := range list.Processes {
		switch d := p.StateDetail; {
		case p.ProcessID == "true" && d != nil:
			t.Errorf("ended, but %+v", d)
		case p.ProcessID == "cat" && (d == nil || d.Activity != wire.ActivityWaitingForInput || d.Evidence != nil):
			t.Errorf("%s", m.Raw)
		}
	}
}
