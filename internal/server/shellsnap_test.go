package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A snapClient starts login shells in a home directory of its own.
type snapClient struct {
	*tethertest.Client
	t    *testing.T
	home string
	n    int
}

// newSnapClient connects to a server. profile is a start-up file of login shells.
func newSnapClient(t *testing.T, profile string) *snapClient {
	t.Helper()
	c := &snapClient{t: t, home: t.TempDir()}
	c.setProfile(profile)
	return c.connect(tethertest.StartServer(t, server.Config{}))
}

// setProfile writes the start-up file of login shells, which counts how often it is read.
func (c *snapClient) setProfile(profile string) {
	c.t.Helper()
	if _, err := os.Stat("/bin/bash"); err != nil {
		c.t.Skip("no bash here")
	}
	if err := os.WriteFile(filepath.Join(c.home, ".bash_profile"), []byte("echo x >>\"$HOME/count\"\n"+profile), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// connect returns a client with the same home directory and a session of its own.
func (c *snapClient) connect(s *tethertest.Server) *snapClient {
	return &snapClient{Client: tethertest.Connect(c.t, s.URL), t: c.t, home: c.home}
}

// params start a script in a login shell with a snapshot; more changes members.
func (c *snapClient) params(id, script string, more map[string]any) map[string]any {
	params := tethertest.Command(id, []string{"/bin/bash", "-lc", script, "zero", "a b"}, map[string]any{
		"cwd": c.home, "env": map[string]string{"HOME": c.home, "PATH": "/usr/bin:/bin"},
		"shellSnapshot": map[string]any{"scopeId": "scope", "shell": map[string]string{"name": "bash", "path": "/bin/bash"}},
	})
	for name, value := range more {
		params[name] = value
	}
	return params
}

// run runs a script to its end.
func (c *snapClient) run(script string, more map[string]any) string {
	c.t.Helper()
	c.n++
	id := fmt.Sprint("run", c.n)
	c.Start(c.params(id, script, more))
	out := c.Finish(id, 0)
	return fmt.Sprintf("%s%s%sexit %d", out.Text["stdout"], out.Text["stderr"], out.Text["pty"], out.ExitCode)
}

func (c *snapClient) reads() int {
	text, _ := os.ReadFile(filepath.Join(c.home, "count"))
	return strings.Count(string(text), "x")
}

func (c *snapClient) expect(got, want string, reads int) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("got %q, want %q", got, want)
	}
	if n := c.reads(); n != reads {
		c.t.Errorf("start-up files were read %d times, want %d", n, reads)
	}
}

func TestSnapshotOncePerScope(t *testing.T) {
	c := newSnapClient(t, "shopt -s expand_aliases; alias hi='echo aliased'; greet() { echo \"hello $1\"; }; export RC=rc\n")
	const script, want = "hi\ngreet you; echo \"$RC $0 $1\"; exit 3", "aliased\nhello you\nrc zero a b\nexit 3"
	c.expect(c.run(script, nil), want, 1)
	c.expect(c.run(script, nil), want, 1)
	c.expect(c.run(script, map[string]any{"tty": true}), "aliased\r\nhello you\r\nrc zero a b\r\nexit 3", 1)
}

// A command with one stream shares the snapshot of a command with two. Text that the
// shell prints to standard error while its state is captured is not a part of the state.
func TestSnapshotWithOneStream(t *testing.T) {
	c := newSnapClient(t, "greet() { echo \"hello $1\"; }; set -x\n")
	const script, want = "set +x; greet you; greet me >&2", "hello you\nhello me\nexit 0"
	clean := func(output string) string {
		return regexp.MustCompile(`(?m)^\+.*\n`).ReplaceAllString(output, "")
	}
	c.expect(clean(c.run(script, map[string]any{"oneStream": true})), want, 1)
	c.expect(clean(c.run(script, nil)), want, 1)
}

func TestSnapshotKeys(t *testing.T) {
	c := newSnapClient(t, "")
	scope := func(id string) map[string]any {
		return map[string]any{"shellSnapshot": map[string]any{"scopeId": id, "shell": map[string]string{"name": "bash", "path": "/bin/bash"}}}
	}
	env := func(more string) map[string]any {
		return map[string]any{"env": map[string]string{"HOME": c.home, "PATH": "/usr/bin:/bin", more: "1"}}
	}
	for i, test := range []struct {
		name  string
		more  map[string]any
		reads int // so far
	}{
		{"first", nil, 1},
		{"the same", nil, 1},
		{"another scope", scope("other"), 2},
		{"another directory", map[string]any{"cwd": "/"}, 3},
		{"a policy", map[string]any{"envPolicy": map[string]any{"inherit": "none", "ignoreDefaultExcludes": true, "exclude": []string{}, "set": map[string]string{}, "includeOnly": []string{}}}, 4},
		{"another variable", env("OTHER"), 4},
		{"a variable that names start-up files", env("BASH_ENV"), 5},
		{"another call", map[string]any{"metadata": map[string]any{"toolCallId": "x"}}, 5},
		{"input", map[string]any{"pipeStdin": false, "arg0": "other"}, 5},
	} {
		c.run("true", test.more)
		if n := c.reads(); n != test.reads {
			t.Fatalf("%d, %s: start-up files were read %d times, want %d", i, test.name, n, test.reads)
		}
	}
}

// Each session has its own snapshots.
func TestSnapshotPerSession(t *testing.T) {
	c := newSnapClient(t, "")
	c.expect(c.run("true", nil), "exit 0", 1)
	s := tethertest.StartServer(t, server.Config{})
	c.connect(s).run("true", nil)
	c.connect(s).run("true", nil)
	if n := c.reads(); n != 3 {
		t.Errorf("start-up files were read %d times", n)
	}
}

func TestSnapshotVariables(t *testing.T) {
	c := newSnapClient(t, "export A=rc B=rc C=rc MY_TOKEN=rc DROPPED=rc CODEX_TOOL_CALL_ID=rc; unset GONE\n")
	more := func(env map[string]string) map[string]any {
		env["HOME"], env["PATH"] = c.home, "/usr/bin:/bin"
		return map[string]any{"env": env, "envPolicy": map[string]any{
			"inherit": "none", "ignoreDefaultExcludes": false, "exclude": []string{"DROP*"}, "set": map[string]string{"B": "policy", "GONE": "policy"}, "includeOnly": []string{},
		}}
	}
	const script = `echo "$A $B $C ${MY_TOKEN-none} ${DROPPED-none} ${CODEX_TOOL_CALL_ID-none} ${FIRST-none} ${SECOND-none}"`
	c.expect(c.run(script, more(map[string]string{"A": "request", "FIRST": "1"})), "request policy rc none none none 1 none\nexit 0", 1)
	c.expect(c.run(script, more(map[string]string{"SECOND": "2"})), "rc policy rc none none none none 2\nexit 0", 1)
}

// If the state cannot be captured, the command runs as it was requested.
func TestSnapshotFallback(t *testing.T) {
	c := newSnapClient(t, "trap 'echo bye' EXIT\n")
	c.expect(c.run("echo hi", nil), "hi\nbye\nexit 0", 2)
	c.expect(c.run("echo hi", nil), "hi\nbye\nexit 0", 3)

	large := newSnapClient(t, "f() { echo "+strings.Repeat("x", 100<<10)+"; }\n")
	const room = 128 << 10 // for one argument
	script := "true #" + strings.Repeat("x", room-len("true #")-1)
	large.expect(large.run(script, nil), "exit 0", 2)
	large.expect(large.run("f | wc -c", nil), fmt.Sprintf("%d\nexit 0", 100<<10+1), 2)
}

func TestSnapshotErrors(t *testing.T) {
	c := newSnapClient(t, "")
	shell := map[string]string{"name": "bash", "path": "/bin/bash"}
	for _, test := range []struct {
		snapshot any
		argv     []string
		want     string
	}{
		{map[string]any{"scopeId": "", "shell": shell}, nil, "shell snapshot scope must be non-empty and at most 256 bytes"},
		{map[string]any{"scopeId": strings.Repeat("x", 257), "shell": shell}, []string{}, "shell snapshot scope must be non-empty and at most 256 bytes"},
		{map[string]any{"scopeId": "x", "shell": map[string]string{"name": "fish", "path": "/bin/bash"}}, nil, "shell snapshots are unsupported for shell `fish`"},
		{map[string]any{"scopeId": "x", "shell": shell}, []string{}, "argv must not be empty"},
		{map[string]any{"scopeId": "x"}, nil, "missing field `shell`"},
		{map[string]any{"scopeId": "x", "shell": "bash"}, nil, `invalid type: string "bash", expected struct ShellInfo`},
		{"x", nil, `invalid type: string "x", expected struct ShellSnapshotRequest`},
	} {
		more := map[string]any{"shellSnapshot": test.snapshot}
		if test.argv != nil {
			more["argv"] = test.argv
		}
		m := c.Call("process/start", c.params("p", "true", more))
		if m.Error == nil || m.Error.Code != wire.CodeInvalidParams || m.Error.Message != test.want {
			t.Errorf("answered %s, want %s", m.Raw, test.want)
		}
	}
	if n := c.reads(); n != 0 {
		t.Errorf("start-up files were read %d times", n)
	}
}

// Only the start that asked for the snapshot waits for start-up files. Even a
// request that changes the directory of the command does not wait.
func TestSnapshotDelaysOnlyItsStart(t *testing.T) {
	c := newSnapClient(t, "until [ -e \"$HOME/go\" ]; do sleep .01; done\n")
	first, second := c.Ask("process/start", c.params("first", "echo 1", nil)), c.Ask("process/start", c.params("second", "echo 2", nil))
	c.Must(wire.MethodEnvironmentStatus, map[string]any{}, nil)
	c.Start(tethertest.Shell("other", "echo other", map[string]any{"cwd": c.home}))
	c.Finish("other", 0)
	c.Must(wire.MethodFsWriteFile, map[string]any{"path": wire.PathToURI(filepath.Join(c.home, "go")), "dataBase64": ""}, nil)
	for id, request := range map[string]int64{"first": first, "second": second} {
		if m := c.Answer(request); m.Error != nil {
			t.Fatalf("%s: %s", id, m.Raw)
		}
		c.Finish(id, 0)
	}
	c.expect("", "", 1)
}

// A start waits for changes that were requested before it.
func TestSnapshotAfterChanges(t *testing.T) {
	c := newSnapClient(t, "")
	const size = 2 << 20
	data := encoded(make([]byte, size))
	for i := range 3 {
		name, id := filepath.Join(c.home, fmt.Sprint("f", i)), fmt.Sprint("p", i)
		c.Ask(wire.MethodFsWriteFile, map[string]any{"path": wire.PathToURI(name), "dataBase64": data})
		c.Ask("process/start", c.params(id, "stat -c %s "+name, nil))
		if out := c.Finish(id, 0); out.Text["stdout"] != fmt.Sprintln(size) {
			t.Errorf("the command saw %q", out.Text)
		}
	}
}

// The server ends even if start-up files hang.
func TestSnapshotEndsWithServer(t *testing.T) {
	c := newSnapClient(t, "sleep 1000\n")
	s := tethertest.StartServer(t, server.Config{})
	other := c.connect(s)
	other.Ask("process/start", other.params("p", "true", nil))
	other.Must(wire.MethodEnvironmentStatus, map[string]any{}, nil)
	s.Stop()
}

// Processes that start-up files leave in the background live as long as the
// session.
func TestSnapshotBackground(t *testing.T) {
	c := newSnapClient(t, "sleep 1000 </dev/null >/dev/null 2>&1 & export PID=$!\n")
	s := tethertest.StartServer(t, server.Config{})
	other := c.connect(s)
	got := other.run(`kill -0 $PID && echo "$PID"`, nil)
	pid, ok := strings.CutSuffix(got, "\nexit 0")
	if !ok {
		t.Fatalf("the background process is gone: %s", got)
	}
	s.Stop()
	status, err := os.ReadFile("/proc/" + pid + "/stat")
	if err == nil && !strings.Contains(string(status), ") Z ") { // the new parent of an orphan may be slow to reap it
		t.Errorf("process %s is still there: %s", pid, status)
	}
}

func TestSnapshotAnnounced(t *testing.T) {
	c := newSnapClient(t, "")
	var info struct {
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	c.Must(wire.MethodEnvironmentInfo, map[string]any{}, &info)
	if string(info.Capabilities["shellSnapshotV2"]) != "true" {
		t.Errorf("announced %s", info.Capabilities["shellSnapshotV2"])
	}
}

// The shell that captures a snapshot is not counted as an exit of the command.
func TestCaptureIsNoExit(t *testing.T) {
	c := &snapClient{t: t, home: t.TempDir()}
	c.setProfile("")
	s := tethertest.StartServer(t, server.Config{})
	c = c.connect(s)
	c.Start(c.params("p", "exit 3", nil))
	c.Finish("p", 0)
	values, _ := scrape(t, s.URL)
	if ok, failed := values[`tether_exits_total{kind="success"}`], values[`tether_exits_total{kind="failure"}`]; ok != 0 || failed != 1 {
		t.Errorf("%v successful exits and %v failed ones, want none and one", ok, failed)
	}
}
