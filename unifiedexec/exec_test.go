package unifiedexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// Scenario UE01.
func TestResultLayout(t *testing.T) {
	r := newRig(t, nil)
	for _, row := range []struct {
		cmd, want string
	}{
		{"echo hello; exit 3", `^Chunk ID: [0-9a-f]{6}\nWall time: \d+\.\d{4} seconds\nProcess exited with code 3\nOriginal token count: 2\nOutput:\nhello\n$`},
		{"true", `^Chunk ID: [0-9a-f]{6}\nWall time: \d+\.\d{4} seconds\nProcess exited with code 0\nOriginal token count: 0\nOutput:\n$`},
		{"", `Process exited with code 0\n`},
	} {
		if got := r.sh(row.cmd).Text(); !regexp.MustCompile(row.want).MatchString(got) {
			t.Errorf("%q gives %q\nwant %s", row.cmd, got, row.want)
		}
	}
	running := r.exec(ExecArgs{Cmd: "echo up; read x", Login: ptr(false), TTY: true, YieldTimeMs: ptr[int64](250)})
	want := fmt.Sprintf("Process running with session ID %d\n", running.SessionID)
	if !strings.Contains(running.Text(), want) || strings.Contains(running.Text(), "exited") {
		t.Errorf("a running session gives %q", running.Text())
	}
	text, err := json.Marshal(r.sh("echo hello; exit 3"))
	var fields map[string]any
	if err != nil || json.Unmarshal(text, &fields) != nil {
		t.Fatal(err)
	}
	if fields["exit_code"] != 3.0 || fields["output"] != "hello\n" || fields["wall_time_seconds"] == nil || fields["session_id"] != nil {
		t.Errorf("for programs: %s", text)
	}
}

// Lines that a command prints on standard output and standard error keep their order, with a
// sandbox and without.
func TestOutputKeepsItsOrder(t *testing.T) {
	t.Parallel()
	lines := tethertest.Interleaved(1000)
	for name, change := range map[string]func(*Config){"open": nil, "sandbox": sandboxed(WorkspaceWrite(), granular)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if change != nil {
				tethertest.NeedBubblewrap(t)
			}
			r := newRig(t, change)
			wantEnd(t, r.exec(ExecArgs{Cmd: lines.Script, Login: ptr(false), YieldTimeMs: ptr[int64](atEnd)}), 0, lines.Both)
		})
	}
}

// If a server cannot give a command one stream, the command has two, and no line is lost.
func TestOutputOfTwoStreams(t *testing.T) {
	t.Parallel()
	lines := tethertest.Interleaved(1000)
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	silentAboutItself(line)
	r := newRigAt(t, line.URL(), nil)
	got := r.exec(ExecArgs{Cmd: lines.Script, Login: ptr(false), YieldTimeMs: ptr[int64](atEnd)})
	if stdout, stderr := lines.Split(got.Output); stdout != lines.Stdout || stderr != lines.Stderr {
		t.Errorf("%s", got.Text())
	}
}

// Scenario UE03.
func TestPollReturnsOnlyNewOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	first := r.exec(ExecArgs{Cmd: "stty -echo; echo one; read x; echo two; read x", Login: ptr(false), TTY: true, YieldTimeMs: ptr[int64](1000)})
	id := r.wantShown(first, "one\r\n")
	r.wantShown(r.stdin(id, "\n", 1000), "two\r\n")
	wantEnd(t, r.stdin(id, "\n", atEnd), 0, "")
}

// Scenario UE04.
func TestOneFinalResult(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	gate := filepath.Join(r.workspace, "gate")
	id := wantRunning(t, r.exec(ExecArgs{Cmd: "until [ -e gate ]; do sleep 0.01; done; echo bye; exit 4", Login: ptr(false), YieldTimeMs: ptr[int64](1)}), "")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, r.stdin(id, "", atEnd), 4, "bye\n")
	_, err := r.WriteStdin(tethertest.Within(t), StdinArgs{SessionID: id})
	wantError(t, err, ErrUnknownSession, fmt.Sprintf("write_stdin failed: Unknown process id %d", id))
}

// Scenario UE05.
func TestInput(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := wantRunning(t, r.exec(ExecArgs{Cmd: "exec sleep 60", Login: ptr(false), YieldTimeMs: ptr[int64](1)}), "")
	_, err := r.WriteStdin(tethertest.Within(t), StdinArgs{SessionID: id, Chars: "text\n"})
	wantError(t, err, ErrStdinClosed, "write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true to keep stdin open")
	wantEnd(t, r.stdin(id, "\x03", atEnd), 130, "")

	id = wantRunning(t, r.exec(ExecArgs{Cmd: "exec cat", Login: ptr(false), TTY: true, YieldTimeMs: ptr[int64](1)}), "")
	r.wantShown(r.stdin(id, "ping\n", 1000), "ping\r\nping\r\n")
	if got := r.stdin(id, "\x04", atEnd); got.ExitCode == nil || *got.ExitCode != 0 {
		t.Errorf("the end of input gives:\n%s", got.Text())
	}
	wantEnd(t, r.sh("cat"), 0, "") // has no input at all
}

// If a program has just ended, the result of a write is its end.
// Scenario UE05.
func TestInputAfterTheEnd(t *testing.T) {
	r := newRig(t, nil)
	id := wantRunning(t, r.exec(ExecArgs{Cmd: "read x; echo got; exit 5", Login: ptr(false), TTY: true, YieldTimeMs: ptr[int64](1)}), "")
	if err := r.find1(id).current().process.Write(tethertest.Within(t), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	<-ended(r.find1(id).current())
	got := r.stdin(id, "more\n", 300)
	if got.ExitCode == nil || *got.ExitCode != 5 {
		t.Errorf("input after the end gives:\n%s", got.Text())
	}
}

// Scenario UE06.
func TestWorkdir(t *testing.T) {
	r := newRig(t, nil)
	if err := os.Mkdir(filepath.Join(r.workspace, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for workdir, want := range map[string]string{"": r.workspace, "sub": r.workspace + "/sub", "./sub/..": r.workspace, "/": "/"} {
		wantEnd(t, r.exec(ExecArgs{Cmd: "pwd", Login: ptr(false), Workdir: workdir}), 0, want+"\n")
	}
	_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "pwd", Workdir: "missing"})
	if !errors.Is(err, ErrCreateProcess) || !strings.HasPrefix(err.Error(), "exec_command failed: Failed to create unified exec process: the working directory /") || !strings.HasSuffix(err.Error(), "/missing does not exist") {
		t.Errorf("a missing directory gives %v", err)
	}
}

// Scenario UE11.
func TestInvalidText(t *testing.T) {
	r := newRig(t, nil)
	wantEnd(t, r.sh(`printf 'a\342\202xb\377\376\360\237\230'`), 0, "a\uFFFDxb\uFFFD\uFFFD\uFFFD")
}

// Scenario UE12.
func TestBackgroundChildHoldsOutput(t *testing.T) {
	r := newRig(t, nil)
	got := r.sh("(sleep 30; echo late) & echo now; exit 3")
	wantEnd(t, got, 3, "now\n")
	if got.WallTime > 8*time.Second { // the call would wait for up to 10 s
		t.Errorf("it took %v", got.WallTime)
	}
}

// Scenario UE13.
func TestParallelSessions(t *testing.T) {
	r := newRig(t, nil)
	var calls sync.WaitGroup
	for i := range 3 { // each waits for the others
		calls.Go(func() {
			cmd := fmt.Sprintf("echo > %d; until [ -e 0 ] && [ -e 1 ] && [ -e 2 ]; do sleep 0.02; done; echo done", i)
			got, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: cmd, Login: ptr(false)})
			if err != nil || got.Output != "done\n" {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	calls.Wait()
}

// Calls for one session run one after the other, and each byte is in one result.
// Scenario UE13.
func TestOverlappingPolls(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := wantRunning(t, r.exec(ExecArgs{Cmd: "stty -echo; while read x; do echo \"[$x]\"; done", Login: ptr(false), TTY: true, YieldTimeMs: ptr[int64](1000)}), "")
	var calls sync.WaitGroup
	var mu sync.Mutex
	var all string
	for i := range 4 {
		calls.Go(func() {
			got, err := r.WriteStdin(tethertest.Within(t), StdinArgs{SessionID: id, Chars: fmt.Sprintf("%d\n", i)})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all += got.Output
		})
	}
	calls.Wait()
	for range 3 { // output that comes late
		if strings.Count(all, "]") < 4 {
			all += r.stdin(id, "", 1).Output
		}
	}
	for i := range 4 {
		if n := strings.Count(all, fmt.Sprintf("[%d]", i)); n != 1 {
			t.Errorf("[%d] was returned %d times in %q", i, n, all)
		}
	}
}

func TestArgumentErrors(t *testing.T) {
	r := newRig(t, func(c *Config) { c.NoLogin = true })
	for _, row := range []struct{ args, want string }{
		{`{"workdir":"/"}`, "failed to parse function arguments: `cmd` is missing"},
		{`{"cmd":"x","yield_time_ms":-1}`, "failed to parse function arguments: `yield_time_ms` must not be negative: -1"},
		{`{"cmd":"x","max_output_tokens":-1}`, "failed to parse function arguments: `max_output_tokens` must not be negative: -1"},
		{`{"cmd":"x","sandbox_permissions":"bogus"}`, "failed to parse function arguments: `sandbox_permissions` must be use_default, require_escalated or with_additional_permissions, not \"bogus\""},
		{`{"cmd":7}`, "failed to parse function arguments: `cmd` must be a string, not a number"},
		{`{"cmd":"x","environment_id":"X"}`, "unknown turn environment id `X`"},
		{`{"cmd":"x","justification":"May I?"}`, "`justification` requires an explicit `sandbox_permissions`; use `sandbox_permissions: \"require_escalated\"` for unsandboxed execution, or omit `justification`."},
		{`{"cmd":"x","login":true}`, "login shell is disabled by config; omit `login` or set it to false."},
		{`{"cmd":"x","sandbox_permissions":"require_escalated"}`, "approval policy is Never; reject command — you cannot ask for escalated permissions if the approval policy is Never"},
	} {
		args, err := ParseExecArgs([]byte(row.args))
		if err == nil {
			_, err = r.ExecCommand(tethertest.Within(t), args)
		}
		wantError(t, err, ErrArguments, row.want)
	}
	if _, err := ParseExecArgs([]byte(`{"cmd": `)); err == nil || !strings.HasPrefix(err.Error(), "failed to parse function arguments: ") {
		t.Errorf("half an object: %v", err)
	}
	if a, err := ParseExecArgs([]byte(`{"cmd":"x","tty":true,"new":1}`)); err != nil || !a.TTY {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := ParseStdinArgs([]byte(`{"session_id":3000000000}`)); err == nil {
		t.Error("a session id beyond 32 bits was accepted")
	}
	empty, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	_, err = empty.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "x"})
	wantError(t, err, ErrArguments, "No usable execution environment is available. Wait for an environment to become available before using this tool.")
}

// find1 returns a session that must exist.
func (r *rig) find1(id int) *session {
	r.t.Helper()
	s, err := r.find(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// ended is closed when an attempt has exited.
func ended(a *attempt) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !a.hasExited() {
			a.mu.Lock()
			changed := a.changed
			over := a.exit != nil
			a.mu.Unlock()
			if !over {
				<-changed
			}
		}
	}()
	return done
}
