//go:build unix

package appserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tetherexec/tether/internal/tethertest"
)

// The exchanges that clients of the reference are known to have.
func TestKnownExchanges(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	c.sh("one", nil, `echo probe >probe; while ! test -e release; do sleep 0.02; done; printf process-out; printf process-err >&2`)
	pidFile := filepath.Join(f.cwd, "probe")
	tethertest.Eventually(t, func() error { _, err := os.Stat(pidFile); return err })
	if _, err := c.AwaitFor(0, func(m tethertest.Message) bool { return m.Method == "process/exited" }); err == nil {
		t.Error("it has exited before it was released")
	}
	if err := os.WriteFile(filepath.Join(f.cwd, "release"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := c.exited("one"); e != (exit{ProcessHandle: "one", Stdout: "process-out", Stderr: "process-err"}) {
		t.Errorf("got %+v", e)
	}
	c.sh("two", j{"outputBytesCap": 3}, "printf abcde; printf 12345 >&2")
	if e := c.exited("two"); e != (exit{ProcessHandle: "two", Stdout: "abc", StdoutCapReached: true, Stderr: "123", StderrCapReached: true}) {
		t.Errorf("got %+v", e)
	}
	c.spawn("three", nil, "sleep", "30")
	accepted(t, "kill", c.Call("process/kill", j{"processHandle": "three"}))
	if e := c.exited("three"); e != (exit{ProcessHandle: "three", ExitCode: 137}) {
		t.Errorf("got %+v", e)
	}
}

// PA03: no notification about a process comes before the answer to its start.
func TestAnswerComesFirst(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	rounds := tethertest.Scaled(200, 1000)
	for i := range rounds {
		c.Ask("process/spawn", c.spawnParams(fmt.Sprint(i), j{"streamStdoutStderr": i%2 == 0, "tty": i%10 == 5}, "echo", "x"))
	}
	answered := map[string]bool{}
	for exits := 0; exits < rounds; {
		m := c.Next()
		if m.Method == "" {
			var id int
			c.decode(m.ID, &id)
			answered[fmt.Sprint(id-2)] = true // the first request was initialize
			accepted(t, "spawn", m)
			continue
		}
		var p struct{ ProcessHandle string }
		c.decode(m.Params, &p)
		if !answered[p.ProcessHandle] {
			t.Fatalf("before the answer: %s", m.Raw)
		}
		if m.Method == "process/exited" {
			exits++
		}
	}
}

// PA04: a handle is in use while its process runs and drains, and free when the
// client is told of its exit.
func TestHandles(t *testing.T) {
	t.Parallel()
	f := start(t, longDrain)
	c := f.connect()
	taken := `duplicate active process handle: "d"`
	c.spawn("d", j{"timeoutMs": nil}, "sleep", "100")
	refused(t, "running", c.Call("process/spawn", c.spawnParams("d", nil, "true")), -32600, taken)
	c.Call("process/kill", j{"processHandle": "d"})
	c.exited("d")

	c.sh("d", j{"streamStdoutStderr": true}, "(until [ -e over ]; do sleep 0.02; done) & echo x; exit 0") // the pipe stays open
	c.until("d", "x")
	c.awaitDrain("d")
	refused(t, "draining", c.Call("process/spawn", c.spawnParams("d", nil, "true")), -32600, taken)
	if err := os.WriteFile(filepath.Join(f.cwd, "over"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.exited("d")

	for _, options := range []j{nil, {"streamStdoutStderr": true}, {"tty": true}} {
		for range tethertest.Scaled(40, 200) {
			c.spawn("d", options, "true")
			c.exited("d")
		}
	}
}

// awaitDrain waits until the command itself has exited.
func (c *user) awaitDrain(handle string) {
	c.t.Helper()
	tethertest.Eventually(c.t, func() error {
		if m := c.Call("process/resizePty", j{"processHandle": handle, "size": j{"rows": 1, "cols": 1}}); m.Error.Message != fmt.Sprintf("process %q is no longer running", handle) {
			return m.Error
		}
		return nil
	})
}

// PA05: each error of a start, in the order of the checks.
func TestRefusedSpawns(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	c.spawn("d", j{"timeoutMs": nil}, "sleep", "100")
	file := filepath.Join(f.cwd, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		what    string
		params  j
		code    int
		message string
	}{
		{"no command", j{"command": []string{}, "processHandle": "", "timeoutMs": -1}, -32600, "command must not be empty"},
		{"no handle", j{"processHandle": "", "size": j{"rows": 0, "cols": 1}}, -32600, "processHandle must not be empty"},
		{"size without tty", j{"size": j{"rows": 0, "cols": 1}, "timeoutMs": -1}, -32602, "process/spawn size requires tty: true"},
		{"negative timeout", j{"tty": true, "size": j{"rows": 0, "cols": 1}, "timeoutMs": -1}, -32602, "process/spawn timeoutMs must be non-negative, got -1"},
		{"zero size", j{"tty": true, "size": j{"rows": 0, "cols": 1}, "processHandle": "d"}, -32602, "process size rows and cols must be greater than 0"},
		{"duplicate", j{"processHandle": "d", "command": []string{"nonexistent-prog"}}, -32600, `duplicate active process handle: "d"`},
		{"no such program", j{"command": []string{"nonexistent-prog"}}, -32603, "failed to spawn process: No such file or directory (os error 2)"},
		{"no such program, tty", j{"command": []string{"nonexistent-prog"}, "tty": true}, -32603,
			"failed to spawn process: Unable to spawn nonexistent-prog because:\nNo viable candidates found in PATH \"/usr/bin:/bin\""},
		{"empty program", j{"command": []string{""}}, -32603, "failed to spawn process: missing program for pipe spawn"},
		{"empty program, tty", j{"command": []string{""}, "tty": true}, -32603, "failed to spawn process: missing program for PTY spawn"},
		{"no such directory", j{"cwd": "/nonexistent-dir"}, -32603, "failed to spawn process: No such file or directory (os error 2)"},
		{"no such directory, tty", j{"cwd": "/nonexistent-dir", "tty": true}, -32603,
			`failed to spawn process: No such file or directory (os error 2): working directory "/nonexistent-dir"`},
		{"directory is a file", j{"cwd": file}, -32603, "failed to spawn process: Not a directory (os error 20)"},
		{"not executable", j{"command": []string{file}}, -32603, "failed to spawn process: Permission denied (os error 13)"},
		{"nul", j{"command": []string{"a\x00b"}}, -32603, "failed to spawn process: nul byte found in provided data"},
		{"relative", j{"cwd": "relative"}, -32600, "Invalid request: AbsolutePathBuf deserialized without a base path"},
		{"empty cwd", j{"cwd": ""}, -32600, "Invalid request: AbsolutePathBuf deserialized without a base path"},
		{"home", j{"cwd": "~"}, -32600, "Invalid request: AbsolutePathBuf deserialized without a base path"},
		{"command is text", j{"command": "true"}, -32600, `Invalid request: invalid type: string "true", expected a sequence`},
		{"tty is null", j{"tty": nil}, -32600, "Invalid request: invalid type: null, expected a boolean"},
		{"half a millisecond", j{"timeoutMs": 1.5}, -32600, "Invalid request: invalid type: floating point `1.5`, expected i64"},
		{"rows", j{"tty": true, "size": j{"rows": 70000, "cols": 1}}, -32600, "Invalid request: invalid value: integer `70000`, expected u16"},
		{"cap", j{"outputBytesCap": -1}, -32600, "Invalid request: invalid value: integer `-1`, expected usize"},
		{"cols", j{"tty": true, "size": j{"rows": 1}}, -32600, "Invalid request: missing field `cols`"},
	} {
		refused(t, try.what, c.Call("process/spawn", c.spawnParams("new", try.params, "true")), try.code, try.message)
	}
	// The handle of a failed start is free, and optional members may be null.
	c.spawn("new", j{"env": nil, "size": nil, "sandboxPolicy": "ignored"}, "true")
	c.exited("new")
	c.Send(`{"id":9000,"method":"process/spawn"}`)
	refused(t, "no params", c.Answer(9000), -32600, "Invalid request: missing field `params`")
}

// PA05: a server whose environment names another executor starts no process.
func TestNoLocalEnvironment(t *testing.T) {
	t.Parallel()
	f := start(t, func(s *Server) {
		s.noLocal = executorNamed([]string{"CODEX_EXEC_SERVER_URL=none"})
	})
	c := f.connect()
	refused(t, "spawn", c.Call("process/spawn", c.spawnParams("", nil)), -32600, "Invalid request: invalid type: null, expected a sequence")
	refused(t, "spawn", c.Call("process/spawn", c.spawnParams("", j{"command": []string{}})), -32603, "local environment is not configured")
	refused(t, "kill", c.Call("process/kill", j{"processHandle": "z"}), -32600, `no active process for process handle "z"`)
	for value, want := range map[string]bool{"": false, " ": false, "none": true, "ws://127.0.0.1:1": true} {
		if got := executorNamed([]string{"CODEX_EXEC_SERVER_URL=" + value}); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
}

// PA06, PA10: absent, null and a number are three different timeouts.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	if defaultTimeout != 10*time.Second {
		t.Errorf("the default is %v", defaultTimeout)
	}
	began := time.Now()
	const given = 2 * time.Second // long enough for a busy machine to print everything
	c.sh("absent", j{"timeoutMs": absent}, "exec sleep 100")
	c.sh("absent tty", j{"timeoutMs": absent, "tty": true}, "exec sleep 100")
	c.sh("null", j{"timeoutMs": nil}, "sleep 10.5; exit 7")
	c.sh("given", j{"timeoutMs": given.Milliseconds()}, "printf before; exec sleep 100")
	c.sh("given tty", j{"timeoutMs": given.Milliseconds(), "tty": true}, "printf before; exec sleep 100")
	for _, handle := range []string{"given", "given tty"} {
		e := c.exited(handle)
		if took := time.Since(began); e.ExitCode != 124 || took < given {
			t.Errorf("%s: %+v after %v", handle, e, took)
		}
		if handle == "given tty" {
			c.until(handle, "before")
		} else if e.Stdout != "before" {
			t.Errorf("got %+v", e)
		}
	}
	c.spawn("zero tty", j{"timeoutMs": 0, "tty": true}, "true")
	if e := c.exited("zero tty"); e.ExitCode != 124 {
		t.Errorf("got %+v", e)
	}
	for range tethertest.Scaled(40, 200) { // however fast the command is
		c.spawn("zero", j{"timeoutMs": 0}, "true")
		if e := c.exited("zero"); e.ExitCode != 124 {
			t.Fatalf("got %+v", e)
		}
	}
	for _, handle := range []string{"absent", "absent tty"} {
		e := c.exited(handle)
		if took := time.Since(began); e.ExitCode != 124 || took < defaultTimeout {
			t.Errorf("%s: %+v after %v", handle, e, took)
		}
	}
	if e := c.exited("null"); e.ExitCode != 7 {
		t.Errorf("null: %+v", e)
	}
}

// PA06, PA07: absent, null and a number are three different caps.
func TestOutputCaps(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	for _, try := range []struct {
		options j
		bytes   int
		want    int
		reached bool
	}{
		{nil, 1_500_000, 1 << 20, true},
		{nil, 1 << 20, 1 << 20, true},
		{nil, 1<<20 - 1, 1<<20 - 1, false},
		{j{"outputBytesCap": nil}, 1_500_000, 1_500_000, false},
		{j{"outputBytesCap": 2_000_000}, 1_500_000, 1_500_000, false},
	} {
		for _, streamed := range []bool{false, true} {
			options := j{"streamStdoutStderr": streamed}
			for name, value := range try.options {
				options[name] = value
			}
			c.sh("cap", options, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; exit 3", try.bytes))
			e := c.exited("cap")
			got, last := len(e.Stdout), false
			for streamed && got < try.want {
				d, data := c.nextDelta("cap")
				got += len(data)
				last = d.CapReached
				if last && got != try.want {
					t.Errorf("the cap was reached at %d", got)
				}
			}
			if got != try.want || e.StdoutCapReached != try.reached || e.ExitCode != 3 || streamed && last != try.reached {
				t.Errorf("%v, %d bytes, streamed %t: got %d, %+v", try.options, try.bytes, streamed, got, e.StdoutCapReached)
			}
		}
	}
}

// PA08: small caps on `abc`.
func TestSmallCaps(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	for _, try := range []struct {
		cap     int
		want    string
		reached bool
	}{{0, "", true}, {3, "abc", true}, {4, "abc", false}} {
		c.sh("s", j{"outputBytesCap": try.cap}, "printf abc")
		if e := c.exited("s"); e != (exit{ProcessHandle: "s", Stdout: try.want, StdoutCapReached: try.reached}) {
			t.Errorf("cap %d: %+v", try.cap, e)
		}
		c.sh("s", j{"outputBytesCap": try.cap, "streamStdoutStderr": true}, "printf abc")
		if d, data := c.nextDelta("s"); data != try.want || d.CapReached != try.reached || d.Stream != "stdout" {
			t.Errorf("cap %d, streamed: %+v", try.cap, d)
		}
		if e := c.exited("s"); e != (exit{ProcessHandle: "s", StdoutCapReached: try.reached}) {
			t.Errorf("cap %d, streamed: %+v", try.cap, e)
		}
	}
	c.sh("s", j{"outputBytesCap": 0}, "exit 0")
	if e := c.exited("s"); e.StdoutCapReached || e.StderrCapReached {
		t.Errorf("without output: %+v", e)
	}
	for range tethertest.Scaled(50, 300) { // the only delta never gets lost at the end
		c.sh("s", j{"outputBytesCap": 0, "streamStdoutStderr": true}, "printf abc; printf abc >&2")
		c.nextDelta("s")
		c.nextDelta("s")
		c.exited("s")
	}
	// A cap applies to each stream, and may be reached in the middle of a piece.
	c.sh("s", j{"outputBytesCap": 4, "streamStdoutStderr": true, "streamStdin": true}, "printf abc; read x; printf de; printf fg; printf e >&2")
	if d, data := c.nextDelta("s"); data != "abc" || d.CapReached {
		t.Errorf("got %+v", d)
	}
	c.write("s", "\n")
	for range 2 { // in any order
		d, data := c.nextDelta("s")
		if want := map[string]string{"stdout": "d", "stderr": "e"}[d.Stream]; data != want || d.CapReached != (d.Stream == "stdout") {
			t.Errorf("got %+v", d)
		}
	}
	if e := c.exited("s"); !e.StdoutCapReached || e.StderrCapReached {
		t.Errorf("got %+v", e)
	}
}

// PA09: output beyond the cap does not block the command.
func TestOutputBeyondTheCap(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	for _, options := range []j{{"outputBytesCap": 10}, {"outputBytesCap": 10, "streamStdoutStderr": true}, {"outputBytesCap": 0, "tty": true}} {
		options["timeoutMs"] = nil
		c.sh("big", options, "head -c 1000000 /dev/zero; exit 9") // far more than a pipe holds
		if e := c.exited("big"); e.ExitCode != 9 || !e.StdoutCapReached {
			t.Errorf("%v: %+v", options, e)
		}
	}
}

// PA16: the same handle on two connections is two processes.
func TestHandlesBelongToConnections(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	a, b := f.connect(), f.connect()
	a.sh("h", j{"timeoutMs": nil}, "exec sleep 100")
	refused(t, "of another", b.Call("process/kill", j{"processHandle": "h"}), -32600, `no active process for process handle "h"`)
	b.sh("h", nil, "printf b")
	if e := b.exited("h"); e.Stdout != "b" {
		t.Errorf("got %+v", e)
	}
	accepted(t, "kill", a.Call("process/kill", j{"processHandle": "h"}))
	if e := a.exited("h"); e.ExitCode != 137 {
		t.Errorf("got %+v", e)
	}
}

// PA18: variables are overridden, added and removed; some never get through.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	c.sh("e", j{"env": j{"PROBE_A": nil, "PROBE_B": "over", "PROBE_C": "new", "node_repl_auth_token": "x", "OPENAI_IDENTITY_TOKEN_FILE": "x",
		"Openai_Workload_Identity_Context": "x", "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN": "x", "openai_federation_rule_id": "x"}},
		"env | grep -iE 'PROBE|TOKEN|OPENAI' | sort")
	if e := c.exited("e"); e.Stdout != "MY_TOKEN=kept\nPROBE_B=over\nPROBE_C=new\n" {
		t.Errorf("got %q", e.Stdout)
	}
	c.spawn("e", j{"env": j{"PATH": nil}}, "true") // found in the default PATH
	c.exited("e")
	refused(t, "PATH", c.Call("process/spawn", c.spawnParams("e", j{"env": j{"PATH": "/nonexistent"}}, "true")), -32603,
		"failed to spawn process: No such file or directory (os error 2)")
	c.spawn("e", j{"cwd": f.cwd + "/x/../."}, "pwd")
	if e := c.exited("e"); e.Stdout != f.cwd+"\n" {
		t.Errorf("got %q", e.Stdout)
	}
}

// PA11: without streamStdin the input has ended.
func TestNoInput(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	c.sh("i", nil, "cat; echo eof=$?")
	if e := c.exited("i"); e.Stdout != "eof=0\n" {
		t.Errorf("got %+v", e)
	}
}

// PA19: streamed output is bytes, collected output is text.
func TestBytesAndText(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	c.sh("b", j{"streamStdoutStderr": true}, `printf 'ok\377\376bad\000\n'`)
	if got := c.until("b", "\n"); got != "ok\xff\xfebad\x00\n" {
		t.Errorf("got %q", got)
	}
	c.exited("b")
	for _, try := range []struct {
		octal, want string
		options     j
	}{
		{`ok\377\376bad\000\n`, "ok\ufffd\ufffdbad\x00\n", nil},
		{`\303\251\303\251`, "é", j{"outputBytesCap": 3}},
		{`a\360\237\230\200b`, "a", j{"outputBytesCap": 2}},
		{`a\360\237\230\200b`, "a", j{"outputBytesCap": 4}},
		{`a\360\237\230\200b`, "a😀", j{"outputBytesCap": 5}},
		{`a\377b`, "a\ufffd", j{"outputBytesCap": 2}}, // not a character that was cut
		{`a\303`, "a\ufffd", nil},                     // nor is this
	} {
		c.sh("b", try.options, "printf '"+try.octal+"'")
		if e := c.exited("b"); e.Stdout != try.want {
			t.Errorf("%s %v: got %q, want %q", try.octal, try.options, e.Stdout, try.want)
		}
	}
	c.spawn("b", nil, "head", "-c", "100000", "/dev/urandom")
	if e := c.exited("b"); !utf8.ValidString(e.Stdout) {
		t.Error("collected output is not valid")
	}
}

// PA24: requests that are sent without waiting for answers keep their order.
func TestPipelined(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	ids := []int64{c.Ask("process/spawn", c.spawnParams("p", j{"streamStdin": true}, "cat"))}
	for i := range 5 {
		ids = append(ids, c.Ask("process/writeStdin", j{"processHandle": "p", "deltaBase64": []string{"YQ==", "Yg==", "Yw==", "ZA==", "ZQ=="}[i]}))
	}
	ids = append(ids, c.Ask("process/writeStdin", j{"processHandle": "p", "closeStdin": true}))
	for _, id := range ids {
		accepted(t, "pipelined", c.Answer(id))
	}
	if e := c.exited("p"); e.Stdout != "abcde" || e.ExitCode != 0 {
		t.Errorf("got %+v", e)
	}
	// Requests for different handles do not wait for each other.
	var handles []string
	for i := range 200 {
		handles = append(handles, fmt.Sprint("many", i))
		c.Ask("process/spawn", c.spawnParams(handles[i], nil, "echo", fmt.Sprint(i)))
	}
	slices.Reverse(handles)
	for _, handle := range handles {
		if e := c.exited(handle); "many"+strings.TrimSpace(e.Stdout) != handle {
			t.Errorf("got %+v", e)
		}
	}
}
