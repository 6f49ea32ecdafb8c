package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/executable"
)

// An mcpUser is an MCP client whose user answers questions.
type mcpUser struct {
	*mcp.ClientSession
	t      *testing.T
	action string // the answer
	asked  []string
}

func newMCPUser(t *testing.T, transport mcp.Transport) *mcpUser {
	t.Helper()
	u := &mcpUser{t: t}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			u.asked = append(u.asked, req.Params.Message) // calls come one after the other
			return &mcp.ElicitResult{Action: u.action}, nil
		},
	})
	var err error
	if u.ClientSession, err = c.Connect(t.Context(), transport, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

// want calls a tool whose answer must have these parts, and returns it.
func (u *mcpUser) want(tool string, args map[string]any, parts ...string) string {
	u.t.Helper()
	if _, waits := args["yield_time_ms"]; tool == "exec_command" && !waits {
		args = maps.Clone(args)
		args["yield_time_ms"] = 30_000 // the default of 10 s may be over before the command on a busy machine
	}
	text, err := callTool(u.t, u.ClientSession, tool, args)
	if err != nil {
		u.t.Fatal(err)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			u.t.Errorf("%s: want %q in\n%s", tool, part, text)
		}
	}
	return text
}

// prompt starts a command that asks something, and answers.
func (u *mcpUser) prompt() {
	u.t.Helper()
	session, _ := u.starts(map[string]any{"cmd": `printf 'name? '; read n; echo "hi $n"`, "tty": true, "yield_time_ms": 250, "login": false}, "name? ")
	u.want("write_stdin", map[string]any{"session_id": session, "chars": "Ada\n", "yield_time_ms": 30_000}, "hi Ada", "Process exited with code 0")
}

// starts starts a command that runs on as a session, and waits until it has printed a part. It
// returns all output so far.
func (u *mcpUser) starts(args map[string]any, part string) (session int, printed string) {
	u.t.Helper()
	text := u.want("exec_command", args)
	id := regexp.MustCompile(`session ID (\d+)`).FindStringSubmatch(text)
	if id == nil {
		u.t.Fatalf("no session:\n%s", text)
	}
	fmt.Sscan(id[1], &session)
	for late := time.Now().Add(patience); ; text = u.want("write_stdin", map[string]any{"session_id": session, "yield_time_ms": 250}) {
		_, output, _ := strings.Cut(text, "Output:\n")
		if printed += output; strings.Contains(printed, part) {
			return session, printed
		}
		if time.Now().After(late) {
			u.t.Fatalf("no %q in\n%s", part, printed)
		}
	}
}

// A command, a prompt, a denial, an approval and a refusal, on the embedded executor and on a named
// server.
func TestMCP(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			b := newTestEnv(t)
			b.work = outsideTmp(t)
			cmd := b.command(append([]string{"mcp", "--cwd", b.work}, url...)...)
			u := newMCPUser(t, &mcp.CommandTransport{Command: cmd, TerminateDuration: patience})
			u.want("exec_command", map[string]any{"cmd": "echo text > file; pwd", "login": false}, "Process exited with code 0", "Output:\n"+b.work+"\n")
			u.want("read_file", map[string]any{"path": "file"}, "text\n")
			u.prompt()
			file := filepath.Join(outsideTmp(t), "file")
			u.action = "decline"
			u.want("exec_command", map[string]any{"login": false, "cmd": "echo text > " + file}, "Process exited with code 1", "Note: rejected by user")
			u.action = "accept"
			u.want("exec_command", map[string]any{"login": false, "cmd": "echo text > " + file}, "Process exited with code 0",
				"Note: after an approval the command was run again from its beginning, without the sandbox")
			if text, err := os.ReadFile(file); string(text) != "text\n" || len(u.asked) != 2 {
				t.Errorf("%q, %v; %q", text, err, u.asked)
			}
			u.want("exec_command", map[string]any{"login": false, "cmd": "exec sleep 1000", "yield_time_ms": 250}, "Process running")
			if err := u.Close(); err != nil || !cmd.ProcessState.Success() {
				t.Errorf("%v, %v", err, cmd.ProcessState)
			}
			b.isEmpty()
		})
	}
}

// A sandbox from a file, with and without a workspace.
func TestMCPSandboxFile(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	b := newTestEnv(t)
	b.work = outsideTmp(t)
	open := outsideTmp(t)
	entry := fmt.Sprintf(`{"path":{"type":"path","path":"file://%s"},"access":"write"}`, open)
	permissions := `{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},` + entry + `]},"network":"restricted"}`
	for name, text := range map[string]string{
		"permissions": permissions,
		"sandbox":     `{"permissions":` + permissions + `,"cwd":"file:///","workspaceRoots":[],"windowsSandboxLevel":"disabled"}`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "own.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			u := newMCPUser(t, &mcp.CommandTransport{Command: b.command("mcp", "--cwd", b.work, "--sandbox", file, "--approval", "never"), TerminateDuration: patience})
			u.want("exec_command", map[string]any{"login": false, "cmd": "pwd; echo text > " + open + "/" + name}, "Process exited with code 0", b.work)
			u.want("exec_command", map[string]any{"login": false, "cmd": "echo text > here"}, "Process exited with code 1", "Read-only file system", "the sandbox denied an operation of the command")
			u.want("exec_command", map[string]any{"login": false, "cmd": "echo [$CODEX_SANDBOX_NETWORK_DISABLED]"}, "[1]")
			u.want("write_file", map[string]any{"path": open + "/" + name, "content": "more"}, "Wrote 4 bytes")
			u.want("write_file", map[string]any{"path": "here", "content": "more"}, "the sandbox may not allow it")
			u.Close()
			if text, err := os.ReadFile(filepath.Join(open, name)); string(text) != "more" {
				t.Errorf("%q, %v", text, err)
			}
			if left, err := os.ReadDir(b.work); len(left) > 0 || err != nil {
				t.Errorf("%v, %v", left, err)
			}
			u = newMCPUser(t, &mcp.CommandTransport{Command: b.command("mcp", "--cwd", b.work, "--sandbox", file, "--network"), TerminateDuration: patience})
			u.want("exec_command", map[string]any{"login": false, "cmd": "echo [$CODEX_SANDBOX_NETWORK_DISABLED]"}, "[]")
			u.Close()
		})
	}
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"type":"managed"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{bad: "not the permissions of a sandbox", bad + "x": "--sandbox " + bad + "x: "} {
		if got := b.tether(strings.NewReader(""), "mcp", "--sandbox", file); got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", file, got)
		}
	}
	b.isEmpty()
}

// A signal ends the server with its commands, and is its exit code.
func TestMCPEndsBySignal(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	cmd := b.command("mcp", "--sandbox", "full", "--cwd", b.work)
	u := newMCPUser(t, &mcp.CommandTransport{Command: cmd, TerminateDuration: patience})
	_, text := u.starts(map[string]any{"login": false, "cmd": "echo $$; exec sleep 1000", "yield_time_ms": 250}, "\n")
	pid := 0
	if _, err := fmt.Sscan(text, &pid); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	u.Wait() // before the client leaves, which would also end the server
	u.Close()
	if code := cmd.ProcessState.ExitCode(); code != exitSignal+int(syscall.SIGTERM) || runs(pid) {
		t.Errorf("%v; process %d runs: %t", cmd.ProcessState, pid, runs(pid))
	}
	b.isEmpty()
}

// outsideTmp makes a directory to which sandboxes do not allow writing.
func outsideTmp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "tether-mcp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A cut has no effect; after the loss of the session the next command works.
func TestMCPCutAndLoss(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	executor := tethertest.StartServer(t, server.Config{})
	line := tethertest.LayCable(t, executor.URL)
	u := newMCPUser(t, &mcp.CommandTransport{Command: b.command("mcp", "-q", "--sandbox", "full", "--url", line.URL(), "--cwd", b.work), TerminateDuration: patience})
	text := u.want("exec_command", map[string]any{"login": false, "cmd": "while [ ! -e go ]; do sleep 0.01; done; echo went", "yield_time_ms": 250}, "Process running")
	line.Cut()
	if err := os.WriteFile(filepath.Join(b.work, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	line.Mend()
	var session int
	fmt.Sscan(regexp.MustCompile(`session ID (\d+)`).FindStringSubmatch(text)[1], &session)
	u.want("write_stdin", map[string]any{"session_id": session, "yield_time_ms": 60_000}, "went\n", "Process exited with code 0")

	line.Cut()
	executor.Stop()
	if err := line.Aim(tethertest.StartServer(t, server.Config{}).URL); err != nil {
		t.Fatal(err)
	}
	line.Mend()
	tethertest.Eventually(t, func() error {
		if text := u.want("exec_command", map[string]any{"login": false, "cmd": "echo again"}); !strings.Contains(text, "again\n") {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
}

func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	token := filepath.Join(b.work, "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, listen := range [][]string{{"--listen", "http://127.0.0.1:0"}, {"--listen", "http://0.0.0.0:0", "--listen-token-file", token}} {
		cmd := b.command(append([]string{"mcp", "--sandbox", "full"}, listen...)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var url string
		fmt.Fscanln(out, &url)
		_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
		if err != nil {
			t.Fatalf("%q: %v", url, err)
		}
		transport := &http.Transport{}
		u := newMCPUser(t, &mcp.StreamableClientTransport{Endpoint: "http://127.0.0.1:" + port + "/mcp", HTTPClient: &http.Client{Transport: withToken{transport}}})
		u.prompt()
		u.want("exec_command", map[string]any{"login": false, "cmd": "exec sleep 1000", "yield_time_ms": 250}, "Process running")
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		u.Close()
		transport.CloseIdleConnections()
	}
	b.isEmpty()
}

type withToken struct{ http.RoundTripper }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer secret")
	return w.RoundTripper.RoundTrip(r)
}

func TestMCPRefusals(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, try := range []struct {
		args   []string
		stderr string
	}{
		{[]string{"--listen", "http://0.0.0.0:0"}, "a token is needed, in the file that --listen-token-file names"},
		{[]string{"--listen", "http://" + taken.Addr().String()}, "--listen: http://" + taken.Addr().String() + " is in use: another program listens there, choose another port"},
		{[]string{"--listen", "https://127.0.0.1:0"}, "is not http://IP:PORT"},
		{[]string{"--listen-token-file", "x"}, "--listen-token-file is for"},
		{[]string{"--listen", "http://127.0.0.1:0", "--listen-token-file", "missing"}, "--listen-token-file"},
		{[]string{"--sandbox", "no"}, `unknown profile "no"`},
		{[]string{"--approval", "always"}, "expected one of never, on-request, granular"},
		{[]string{"--sandbox", "full", "--allow-host", "x.example"}, "--allow-host needs a sandbox"},
		{[]string{"--network", "--allow-host", "x.example"}, "--network cannot be used with --allow-host"},
		{[]string{"--deny-host", "x.example"}, "--deny-host needs --allow-host"},
		{[]string{"--remember-hosts", "hosts"}, "--remember-hosts needs --allow-host"},
		{[]string{"--url", "nonsense"}, "nonsense"},
		{[]string{"--url", "ws://127.0.0.1:1", "--token-file", "missing"}, "--token-file missing"},
		{[]string{"--url", "wss://127.0.0.1:1", "--tls-ca", "missing"}, "--tls-ca missing"},
		{[]string{"more"}, "unexpected argument"},
	} {
		if got := b.tether(strings.NewReader(""), append([]string{"mcp"}, try.args...)...); got.code != exitRefused || got.stdout != "" || !strings.Contains(got.stderr, try.stderr) {
			t.Errorf("%q: %+v", try.args, got)
		}
	}
	for _, args := range [][]string{{"mcp"}, {"mcp", "--url", "ws://127.0.0.1:1"}} {
		if got := b.tether(strings.NewReader(""), args...); got.code != 0 || got.stderr != "" {
			t.Errorf("%q, and a client that says nothing: %+v", args, got)
		}
	}
	b.isEmpty()
}

// tether finds the program behind `tether mcp` beside itself, then in PATH. It says what to do if there is none, or one
// of another version.
func TestMCPProgram(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	dir, err := os.MkdirTemp(filepath.Dir(b.self), "beside-") // on the same file system
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Link(b.self, filepath.Join(dir, "tether")); err != nil {
		t.Fatal(err)
	}
	tether := func(path, stdin string) end {
		t.Helper()
		var out, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "tether"), "mcp", "--sandbox", "full", "--cwd", b.work)
		cmd.Dir, cmd.Env = b.work, append(slices.Clone(b.env), "PATH="+path)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &stderr
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return end{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
	}
	if got := tether("", ""); got.code != exitRefused || got.stdout != "" || !strings.HasPrefix(got.stderr, "tether: `tether mcp` needs the program tether-mcp") {
		t.Errorf("without the program: %+v", got)
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"
	if got := tether(filepath.Dir(mcpBuilt(t)), hello); got.code != exitOK || !strings.Contains(got.stdout, `"serverInfo"`) {
		t.Errorf("with the program in PATH: %+v", got)
	}
	// A program beside tether goes first. It gets tether's version and arguments.
	beside := "#!/bin/sh\nprintf '%s ' \"$@\"\nexit 7\n"
	if err := executable.Write(filepath.Join(dir, withMCP.program), []byte(beside)); err != nil {
		t.Fatal(err)
	}
	want := prefixCompanion + " " + versionText() + " mcp --sandbox full --cwd " + b.work + " "
	if got := tether(filepath.Dir(mcpBuilt(t)), hello); got.code != 7 || got.stdout != want {
		t.Errorf("with a program beside tether: %+v, want %q", got, want)
	}
	text, err := exec.Command(mcpBuilt(t), prefixCompanion, "0.0.1", "mcp").CombinedOutput()
	want = "tether: tether-mcp has version " + versionText() + ", and the tether that has started it 0.0.1; install both from the same release\n"
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitRefused || string(text) != want {
		t.Errorf("started by another version: %v, %q", err, text)
	}
}
