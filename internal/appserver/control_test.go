//go:build unix

package appserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// PA12: each error of a write, in the order of the checks.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	f := start(t, longDrain)
	c := f.connect()
	c.spawn("w", j{"timeoutMs": nil}, "sleep", "100")
	c.spawn("in", j{"timeoutMs": nil, "streamStdin": true}, "sleep", "100")
	for _, try := range []struct {
		params  j
		code    int
		message string // empty: it is accepted
	}{
		{j{"processHandle": "missing"}, -32602, "process/writeStdin requires deltaBase64 or closeStdin"},
		{j{"processHandle": "missing", "closeStdin": false, "deltaBase64": nil}, -32602, "process/writeStdin requires deltaBase64 or closeStdin"},
		{j{"processHandle": "missing", "deltaBase64": "!!"}, -32602, "invalid deltaBase64: Invalid symbol 33, offset 0."},
		{j{"processHandle": "missing", "deltaBase64": "QQ"}, -32602, "invalid deltaBase64: Invalid padding"},
		{j{"processHandle": "missing", "deltaBase64": "QR=="}, -32602, "invalid deltaBase64: Invalid last symbol 82, offset 1."},
		{j{"processHandle": "missing", "deltaBase64": "-_=="}, -32602, "invalid deltaBase64: Invalid symbol 45, offset 0."},
		{j{"processHandle": "missing", "deltaBase64": "eA=="}, -32600, `no active process for process handle "missing"`},
		{j{"processHandle": "w", "deltaBase64": "eA=="}, -32600, "stdin streaming is not enabled for this process"},
		{j{"processHandle": "w", "deltaBase64": ""}, -32600, "stdin streaming is not enabled for this process"},
		{j{"processHandle": "w", "closeStdin": true}, -32600, "stdin streaming is not enabled for this process"},
		{j{"processHandle": "in", "deltaBase64": ""}, 0, ""},
		{j{"processHandle": "in", "deltaBase64": "eA==", "closeStdin": true}, 0, ""},
		{j{"processHandle": "in", "closeStdin": true}, 0, ""},
		{j{"processHandle": "in", "deltaBase64": ""}, 0, ""},
		{j{"processHandle": "in", "deltaBase64": "eA=="}, -32600, "stdin is already closed"},
		{j{"processHandle": "in", "deltaBase64": "eA==", "closeStdin": true}, -32600, "stdin is already closed"},
		{j{"processHandle": "in", "closeStdin": nil}, -32600, "Invalid request: invalid type: null, expected a boolean"},
	} {
		m := c.Call("process/writeStdin", try.params)
		if try.message == "" {
			accepted(t, fmt.Sprint(try.params), m)
		} else {
			refused(t, fmt.Sprint(try.params), m, try.code, try.message)
		}
	}
	// A command that has exited takes no input, even if its output continues.
	c.sh("gone", j{"streamStdin": true, "streamStdoutStderr": true}, "(sleep 100) & echo x; exit 0")
	c.until("gone", "x")
	c.awaitDrain("gone")
	refused(t, "exited", c.write("gone", "x"), -32600, `process "gone" is no longer running`)
	refused(t, "exited", c.Call("process/kill", j{"processHandle": "gone"}), -32600, `process "gone" is no longer running`)
}

// PA13: everything that was written is read before the end of the input.
func TestWriteAndClose(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	c.spawn("cat", j{"streamStdin": true, "outputBytesCap": nil}, "wc", "-c")
	chunk := base64.StdEncoding.EncodeToString(make([]byte, 300_000))
	for i := range 10 {
		c.Ask("process/writeStdin", j{"processHandle": "cat", "deltaBase64": chunk, "closeStdin": i == 9})
	}
	if e := c.exited("cat"); strings.TrimSpace(e.Stdout) != "3000000" {
		t.Errorf("got %+v", e)
	}
	// On a terminal the end of the input is a newline and the end-of-file
	// character.
	c.spawn("tty", j{"tty": true}, "cat")
	accepted(t, "write", c.write("tty", "abc"))
	accepted(t, "close", c.Call("process/writeStdin", j{"processHandle": "tty", "closeStdin": true}))
	if e := c.exited("tty"); e.ExitCode != 0 {
		t.Errorf("got %+v", e)
	}
	if got := c.until("tty", "abc\r\nabc"); !strings.HasPrefix(got, "abc") {
		t.Errorf("got %q", got)
	}
	c.spawn("tty", j{"tty": true, "timeoutMs": nil}, "sleep", "100")
	accepted(t, "close", c.Call("process/writeStdin", j{"processHandle": "tty", "closeStdin": true}))
	refused(t, "after the close", c.write("tty", "x"), -32600, "stdin is already closed")
	// A raw terminal passes both through unchanged.
	c.sh("raw", j{"tty": true}, "stty raw -echo; printf ready; head -c 2 | od -An -c")
	c.until("raw", "ready")
	accepted(t, "close", c.Call("process/writeStdin", j{"processHandle": "raw", "closeStdin": true}))
	c.until("raw", `\n 004`)
	c.exited("raw")
	// If the command does not read, that is no error for the client.
	c.sh("deaf", j{"streamStdin": true, "streamStdoutStderr": true, "timeoutMs": nil}, "exec <&-; echo closed; exec sleep 100")
	c.until("deaf", "closed")
	for range 3 {
		accepted(t, "deaf", c.write("deaf", strings.Repeat("x", 100_000)))
	}
}

// PA14: the size of a terminal, and errors for a process without one.
func TestResize(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	size := func(rows, cols int) j { return j{"rows": rows, "cols": cols} }
	refused(t, "zero beats unknown", c.Call("process/resizePty", j{"processHandle": "x", "size": size(0, 1)}), -32602,
		"process size rows and cols must be greater than 0")
	refused(t, "unknown", c.Call("process/resizePty", j{"processHandle": "x", "size": size(1, 1)}), -32600, `no active process for process handle "x"`)
	refused(t, "without size", c.Call("process/resizePty", j{"processHandle": "x"}), -32600, "Invalid request: missing field `size`")
	c.spawn("pipe", j{"timeoutMs": nil}, "sleep", "100")
	refused(t, "pipe", c.Call("process/resizePty", j{"processHandle": "pipe", "size": size(1, 1)}), -32600,
		"failed to resize PTY: process is not attached to a PTY")
	c.sh("tty", j{"tty": true, "timeoutMs": nil}, "trap 'stty size' WINCH; stty size; while :; do read x; done")
	c.until("tty", "24 80\r\n")
	accepted(t, "resize", c.Call("process/resizePty", j{"processHandle": "tty", "size": size(48, 160)}))
	accepted(t, "a line", c.write("tty", "\n")) // dash runs no trap if the signal comes just before it reads
	c.until("tty", "48 160\r\n")
	accepted(t, "interrupt", c.write("tty", "\x03"))
	if e := c.exited("tty"); e.ExitCode != 130 { // 128 + SIGINT
		t.Errorf("got %+v", e)
	}
	c.spawn("sized", j{"tty": true, "size": size(10, 20)}, "stty", "size")
	c.until("sized", "10 20\r\n")
	c.exited("sized")
}

// PA15: a kill works at once, kills everything, and may be repeated.
func TestKill(t *testing.T) {
	t.Parallel()
	f := start(t, longDrain) // for ever, if a process that survived the kill holds the output
	c := f.connect()
	for _, options := range []j{{"timeoutMs": nil}, {"timeoutMs": nil, "tty": true}} {
		for _, name := range []string{"child", "session"} {
			os.Remove(filepath.Join(f.cwd, name))
		}
		// A process that gets SIGTERM first exits with 9.
		c.sh("k", options, "trap 'exit 9' TERM; trap '' HUP; printf hi; sh -c 'echo $$ >child; exec sleep 100' & setsid sh -c 'echo $$ >session; exec sleep 100' & wait")
		child, session := pid(t, f.cwd+"/child"), pid(t, f.cwd+"/session")
		first, second := c.Ask("process/kill", j{"processHandle": "k"}), c.Ask("process/kill", j{"processHandle": "k"})
		accepted(t, "kill", c.Answer(first))
		if m := c.Answer(second); m.Error != nil && m.Error.Message != `process "k" is no longer running` && m.Error.Message != `no active process for process handle "k"` {
			t.Errorf("second kill: %s", m.Raw)
		}
		if e := c.exited("k"); e.ExitCode != 137 || options["tty"] == nil && e.Stdout != "hi" || e.OutputDrainTimedOut {
			t.Errorf("got %+v", e)
		}
		refused(t, "third kill", c.Call("process/kill", j{"processHandle": "k"}), -32600, `no active process for process handle "k"`)
		gone(t, child)
		gone(t, session)
	}
	for _, tty := range []bool{false, true} {
		c.sh("self", j{"tty": tty}, "kill -TERM $$")
		if e := c.exited("self"); e.ExitCode != 143 {
			t.Errorf("tty %t: %+v", tty, e)
		}
	}
}

// PA17: the end of a connection kills everything that it started, including what
// processes with a freed handle have left.
func TestConnectionEnd(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	ends := map[string]func(*user){
		"close frame": func(c *user) { c.WS().WriteFrame(0x80|8, true, []byte{0x03, 0xe8}) },
		"gone":        func(c *user) { c.Close() },
		"junk":        func(c *user) { c.WS().WriteFrame(0xff, true, nil) },
	}
	for name, end := range ends {
		c := f.connect()
		dir := t.TempDir()
		c.cwd = dir
		running := "echo $$ >%s; exec sleep 100"
		c.sh("pipe", j{"timeoutMs": nil}, fmt.Sprintf(running, "pipe"))
		c.sh("tty", j{"timeoutMs": nil, "tty": true}, fmt.Sprintf(running, "tty"))
		c.sh("streamed", j{"timeoutMs": nil, "streamStdoutStderr": true}, "echo $$ >streamed; exec cat /dev/zero")
		c.sh("left", nil, "setsid sh -c 'echo $$ >left; exec sleep 100' >/dev/null 2>&1 & exit 0")
		c.exited("left")
		var pids []int
		for _, file := range []string{"pipe", "tty", "streamed", "left"} {
			pids = append(pids, pid(t, filepath.Join(dir, file)))
		}
		began := time.Now()
		end(c)
		for _, pid := range pids {
			gone(t, pid)
		}
		if took := time.Since(began); took > 8*time.Second { // a silent peer is pinged after ten
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

// PA22: a command that does not read its input can be killed, times out, and ends
// with its connection. Writes to it get an error.
func TestBlockedInput(t *testing.T) {
	t.Parallel()
	f := start(t, func(s *Server) { s.stdinTimeout = 200 * time.Millisecond })
	chunk := base64.StdEncoding.EncodeToString(make([]byte, 256<<10))
	fill := func(c *user, options j) (ids []int64) {
		options["streamStdin"] = true
		c.sh("b", options, "echo $$ >blocked; exec sleep 100")
		for range 42 { // 10.5 MiB
			ids = append(ids, c.Ask("process/writeStdin", j{"processHandle": "b", "deltaBase64": chunk}))
		}
		return ids
	}
	count := func(c *user, ids []int64, messages ...string) {
		t.Helper()
		refused := 0
		for _, id := range ids {
			if m := c.Answer(id); m.Error != nil {
				refused++
				if !slices.Contains(messages, m.Error.Message) {
					t.Errorf("got %s", m.Raw)
				}
			} else if refused > 0 {
				t.Error("a write was accepted after a refused one")
			}
		}
		if refused == 0 || refused == len(ids) {
			t.Errorf("%d of %d writes refused", refused, len(ids))
		}
	}

	c := f.connect()
	ids := fill(c, j{"timeoutMs": nil})
	count(c, ids, `stdin queue of process "b" is full: it has not read its input for 200ms; nothing of this write was queued`)
	accepted(t, "kill", c.Call("process/kill", j{"processHandle": "b"}))
	if e := c.exited("b"); e.ExitCode != 137 {
		t.Errorf("got %+v", e)
	}

	f = start(t, nil)
	c = f.connect()
	ids = fill(c, j{"timeoutMs": nil})
	accepted(t, "kill", c.Call("process/kill", j{"processHandle": "b"}))                                    // after the writes
	const ended, forgotten = `process "b" is no longer running`, `no active process for process handle "b"` // the latter if the client was slow
	count(c, ids, ended)
	c.exited("b")

	ids = fill(c, j{"timeoutMs": 2000})
	if e := c.exited("b"); e.ExitCode != 124 {
		t.Errorf("got %+v", e)
	}
	count(c, ids, ended, forgotten)

	os.Remove(f.cwd + "/blocked")
	fill(c, j{"timeoutMs": nil})
	child := pid(t, f.cwd+"/blocked")
	c.Close()
	gone(t, child)
}

// A client with too many pending requests is told so, and can still kill.
func TestOverload(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	c.sh("b", j{"timeoutMs": nil, "streamStdin": true}, "exec sleep 100")
	chunk := base64.StdEncoding.EncodeToString(make([]byte, stdinQueue+1))
	var ids []int64
	for range 2 { // one is with the child, the next fills the queue
		ids = append(ids, c.Ask("process/writeStdin", j{"processHandle": "b", "deltaBase64": chunk}))
	}
	for range maxPending + 1 {
		ids = append(ids, c.Ask("process/writeStdin", j{"processHandle": "b", "deltaBase64": "eA=="}))
	}
	refused(t, "overload", c.Answer(ids[len(ids)-1]), -32001, "Server overloaded; retry later.")
	accepted(t, "kill", c.Call("process/kill", j{"processHandle": "b"}))
	c.exited("b")
	for _, id := range ids[:len(ids)-1] {
		c.Answer(id)
	}
	c.spawn("b", nil, "true") // the overload is over
	c.exited("b")
}

// longDrain is for tests that must not see the end of a drain.
func longDrain(s *Server) { s.drainTime = time.Hour }

// PA23: output that comes soon after the exit is delivered.
func TestDrain(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Second // long enough for a busy machine
	f := start(t, func(s *Server) {
		if s.drainTime != 2*time.Second {
			t.Errorf("the output has %v", s.drainTime)
		}
		s.drainTime = limit
	})
	c := f.connect()
	began := time.Now()
	script := "(until [ -e go ]; do sleep 0.02; done; printf late; exec sleep 100) & printf first; exit 5"
	c.sh("dr", nil, script)
	c.sh("streamed", j{"streamStdoutStderr": true}, script)
	c.awaitDrain("dr")
	c.awaitDrain("streamed")
	if err := os.WriteFile(filepath.Join(f.cwd, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := c.exited("dr"); e != (exit{ProcessHandle: "dr", ExitCode: 5, OutputDrainTimedOut: true, Stdout: "firstlate"}) {
		t.Errorf("got %+v", e)
	}
	if took := time.Since(began); took < limit {
		t.Errorf("it took %v", took)
	}
	if e := c.exited("streamed"); !e.OutputDrainTimedOut || e.ExitCode != 5 {
		t.Errorf("got %+v", e)
	}
	c.until("streamed", "late")

	// If the output ends, or no more of it is wanted, the exit does not wait
	// longer.
	f = start(t, longDrain)
	c = f.connect()
	c.sh("capped", j{"outputBytesCap": 5}, "sleep 100 2>/dev/null & printf first; exit 5") // stdout is at its cap, stderr at its end
	if e := c.exited("capped"); e.OutputDrainTimedOut || !e.StdoutCapReached || e.Stdout != "first" {
		t.Errorf("got %+v", e)
	}
	c.sh("soon", nil, "(until [ -e go ]; do sleep 0.02; done; printf late) & exit 0")
	c.awaitDrain("soon")
	if err := os.WriteFile(filepath.Join(f.cwd, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := c.exited("soon"); e.Stdout != "late" || e.OutputDrainTimedOut {
		t.Errorf("got %+v", e)
	}
}

// PA20: a client that does not read blocks the command, and no others. When it
// reads again, nothing is missing.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	f := start(t, longDrain)
	ours, theirs := net.Pipe() // buffers nothing
	conn := f.newConn(t.Context(), rpc.NewLines(theirs, theirs), "test")
	ended := make(chan struct{})
	go func() { // ends with the connection
		conn.run()
		close(ended)
	}()
	read := json.NewDecoder(ours)
	send := func(method string, params any) {
		text, err := json.Marshal(j{"id": 1, "method": method, "params": params})
		if err == nil {
			_, err = ours.Write(append(text, '\n'))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const size = 5_000_000
	cwd := f.cwd
	send("initialize", j{"clientInfo": j{"name": "slow", "version": "1"}, "capabilities": j{"experimentalApi": true}})
	send("process/spawn", j{"command": []string{"sh", "-c", fmt.Sprintf("head -c %d /dev/zero; echo >done", size)}, "processHandle": "big", "cwd": cwd,
		"streamStdoutStderr": true, "outputBytesCap": nil, "timeoutMs": nil})
	send("process/spawn", j{"command": []string{"sh", "-c", "head -c 900000 /dev/zero; echo >small"}, "processHandle": "small", "cwd": cwd, "timeoutMs": nil})
	send("process/spawn", j{"command": []string{"sh", "-c", "head -c 600000 /dev/zero; exit 6"}, "processHandle": "last words", "cwd": cwd,
		"streamStdoutStderr": true, "timeoutMs": nil})

	tethertest.Eventually(t, func() error { // the other process of the connection runs on
		_, err := os.Stat(filepath.Join(cwd, "small"))
		return err
	})
	c := f.connect() // and so does another connection
	c.spawn("other", nil, "true")
	c.exited("other")
	blocked := func(handle string) error {
		conn.mu.Lock()
		p := conn.handles[handle]
		conn.mu.Unlock()
		if p == nil || !p.log.Stats().Blocked {
			return errors.New(handle + " is not held back")
		}
		return nil
	}
	tethertest.Eventually(t, func() error { return blocked("big") })
	conn.mu.Lock()
	last := conn.handles["last words"]
	conn.mu.Unlock()
	tethertest.Eventually(t, func() error {
		if last.running() {
			return errors.New("still running")
		}
		return blocked("last words")
	})
	last.drainOver() // as if the time had passed
	if _, err := os.Stat(filepath.Join(cwd, "done")); err == nil {
		t.Error("the command was not blocked")
	}

	got, exits := map[string]int{}, 0
	for exits < 3 {
		var m struct {
			Method string
			Params struct {
				delta
				exit
				ProcessHandle string
			}
		}
		if err := read.Decode(&m); err != nil {
			t.Fatal(err)
		}
		switch m.Method {
		case "process/outputDelta":
			data, err := base64.StdEncoding.DecodeString(m.Params.DeltaBase64)
			if err != nil || bytes.Count(data, []byte{0}) != len(data) {
				t.Fatal(err, "or not what was printed")
			}
			got[m.Params.ProcessHandle] += len(data)
		case "process/exited":
			exits++
			got[m.Params.ProcessHandle] += len(m.Params.Stdout)
			if m.Params.OutputDrainTimedOut {
				t.Errorf("%s was drained", m.Params.ProcessHandle)
			}
		}
	}
	if got["big"] != size || got["small"] != 900_000 || got["last words"] != 600_000 {
		t.Errorf("got %v", got)
	}
	tethertest.Eventually(t, func() error { // all counters are back at zero
		if requests, bytes, collected := conn.pending.Load(), conn.bytes.Load(), conn.collected.Load(); requests != 0 || bytes != 0 || collected != 0 {
			return fmt.Errorf("%d requests of %d bytes pending, %d bytes collected", requests, bytes, collected)
		}
		return nil
	})
	ours.Close()
	<-ended
}

// After output was blocked by the client, it gets the whole drain time once it can
// be read.
func TestDrainAfterAHold(t *testing.T) {
	t.Parallel()
	f := start(t, longDrain)
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	conn := f.newConn(t.Context(), rpc.NewLines(theirs, theirs), "test")
	p := newProcess(conn, &wire.ProcessSpawnParams{StreamStdoutStderr: true}, &client{})
	defer p.log.End()
	var writing sync.WaitGroup
	writing.Go(func() {
		for range streamAhead/outlog.MaxEntry + 2 {
			p.Append(outlog.Stdout, make([]byte, outlog.MaxEntry))
		}
	})
	look := func(what string, met func() bool) {
		tethertest.Eventually(t, func() error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !met() {
				return errors.New(what)
			}
			return nil
		})
	}
	look("not blocked", func() bool { return p.log.Stats().Blocked })
	p.Exit(0)
	p.drainOver() // as if the time had passed
	look("the block was not noticed", func() bool { return p.drain.heldUp })
	p.log.Sent(math.MaxUint64) // the client has taken the output
	look("the drain was not checked again", func() bool { return !p.drain.heldUp || p.state == over })
	if p.mu.Lock(); p.state != draining || p.drain.timedOut {
		t.Error("the output had no time")
	}
	p.mu.Unlock()
	writing.Wait()
	p.EndStream(outlog.Stdout)
	p.EndStream(outlog.Stderr)
	if p.state != over || p.drain.timedOut {
		t.Errorf("state %d, timed out: %t", p.state, p.drain.timedOut)
	}
}

// A kill after the command has exited kills nothing and reports that: the state of a process only moves forward.
func TestKillAfterTheExit(t *testing.T) {
	t.Parallel()
	f := start(t, longDrain)
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	conn := f.newConn(t.Context(), rpc.NewLines(theirs, theirs), "test")
	p := newProcess(conn, &wire.ProcessSpawnParams{}, &client{})
	p.Exit(0)
	if p.kill() || p.state != draining {
		t.Errorf("killed, state %d", p.state)
	}
	p.abandon()
	if p.kill() || p.state != over {
		t.Errorf("killed, state %d", p.state)
	}
}

// Output after the end of a process is not kept.
func TestOutputAfterTheEnd(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	conn := f.newConn(t.Context(), rpc.NewLines(theirs, theirs), "test")
	p := newProcess(conn, &wire.ProcessSpawnParams{}, &client{})
	p.Append(outlog.Stdout, []byte("in time"))
	p.Exit(0)
	p.EndStream(outlog.Stderr)
	p.drainOver()
	p.Append(outlog.Stdout, []byte("late"))
	if got := string(p.stdout.text); got != "in time" || !p.drain.timedOut || conn.collected.Load() != int64(len(got)) {
		t.Errorf("got %q, %d bytes", got, conn.collected.Load())
	}
}

// A message of any size gets through.
func TestLargeExit(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	const size = 400_000 // six characters each in JSON: more than a connection has for its answers
	c.spawn("large", j{"outputBytesCap": nil, "timeoutMs": nil}, "head", "-c", strconv.Itoa(size), "/dev/zero")
	if e := c.exited("large"); len(e.Stdout) != size || strings.Trim(e.Stdout, "\x00") != "" || e.StdoutCapReached {
		t.Errorf("got %d bytes", len(e.Stdout))
	}
}

// A process with a time limit of 0 has timed out, even if it ended first.
func TestTimeLimitOfZero(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	conn := f.newConn(t.Context(), rpc.NewLines(theirs, theirs), "test")
	params := &wire.ProcessSpawnParams{Command: []string{"true"}, Cwd: "/", TimeoutMs: wire.TimeoutMs{Wish: wire.Given}}
	p := newProcess(conn, params, &client{})
	child, err := f.procs.Start(t.Context(), conn.spec(params), p)
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	if p.started(child); !p.time.passed {
		t.Error("it has not timed out")
	}
}

// A client sends process/spawn and other requests for the same handle in one burst and
// disconnects: they run after the connection has ended, the start fails, and the others find
// no process.
func TestRequestsBehindAStartThatTheEndOfTheConnectionFails(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	ctx, leave := context.WithCancel(t.Context())
	conn := f.newConn(ctx, rpc.NewLines(theirs, theirs), "test")
	leave()
	conn.end()
	params := &wire.ProcessSpawnParams{Command: []string{"cat"}, ProcessHandle: "h", Cwd: "/", TTY: true}
	if err := conn.spawn(nil, params, &client{}); err == nil {
		t.Fatal("a process was started on a connection that has ended")
	}
	input := "eA=="
	for name, request := range map[string]func() error{
		"kill": func() error { return conn.killProcess(&wire.ProcessKillParams{ProcessHandle: "h"}) },
		"resizePty": func() error {
			return conn.resize(&wire.ProcessResizePtyParams{ProcessHandle: "h", Size: wire.ProcessTerminalSize{Rows: 1, Cols: 1}})
		},
		"writeStdin": func() (err error) {
			conn.write(&wire.ProcessWriteStdinParams{ProcessHandle: "h", DeltaBase64: &input}, func(e error) { err = e })
			return err
		},
	} {
		if err := request(); err == nil || err.Error() != `no active process for process handle "h"` {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(conn.handles) > 0 {
		t.Errorf("handles in use: %v", conn.handles)
	}
}

// While a process is starting, its handle is in use, but no method finds the
// process.
func TestHandleWithoutAChild(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	conn := f.newConn(t.Context(), rpc.NewLines(theirs, theirs), "test")
	if err := conn.reserve(newProcess(conn, &wire.ProcessSpawnParams{ProcessHandle: "h"}, &client{})); err != nil {
		t.Fatal(err)
	}
	if err := conn.killProcess(&wire.ProcessKillParams{ProcessHandle: "h"}); err == nil {
		t.Error("a process that was never started was killed")
	}
}
