package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// toolServer builds a real MCP server.
func toolServer(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "toolserver")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "../../client/mcptransport/internal/toolserver").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// mcpSession connects an MCP client to a server command.
func mcpSession(t *testing.T, cmd *exec.Cmd) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func callTool(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) (string, error) {
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

// F62 and F63, for a client that knows nothing of executors.
func TestMCPRunSurvivesCutAndLostSession(t *testing.T) {
	t.Parallel()
	b, bin := newTestEnv(t), toolServer(t)
	executor := tethertest.StartServer(t, server.Config{})
	line := tethertest.LayCable(t, executor.URL)
	var stderr bytes.Buffer
	cmd := b.command("mcp-run", "--url", line.URL(), "--cwd", b.work, "--env", "LITERAL=yes", "--", bin)
	cmd.Stderr = &stderr
	s := mcpSession(t, cmd)
	call := func(tool string, args map[string]any) string {
		t.Helper()
		text, err := callTool(t, s, tool, args)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	waiting := func() (file string, answer chan string) {
		file, answer = filepath.Join(b.work, "go"), make(chan string, 1)
		go func() {
			text, err := callTool(t, s, "wait", map[string]any{"file": file})
			if err != nil {
				text = err.Error()
			}
			answer <- text
		}()
		tethertest.Eventually(t, func() error { return os.Remove(file + ".begun") })
		return file, answer
	}
	if got := call("getenv", map[string]any{"name": "LITERAL"}); got != `"yes" true` {
		t.Error(got)
	}
	pid := call("pid", nil)

	file, answer := waiting()
	line.Cut()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	line.Mend()
	if got := <-answer; got != pid || line.Links() != 2 {
		t.Errorf("after a cut: %s, want %s; %d connections", got, pid, line.Links())
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, answer = waiting()
	line.Cut()
	executor.Stop()
	if err := line.Aim(tethertest.StartServer(t, server.Config{}).URL); err != nil {
		t.Fatal(err)
	}
	line.Mend()
	if got := <-answer; !strings.Contains(got, "Transport closed: ") {
		t.Errorf("after the session was lost: %s", got)
	}
	if got := call("pid", nil); got == pid {
		t.Error("the same server")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if text := stderr.String(); strings.Count(text, "toolserver is ready\n") != 2 || !strings.Contains(text, "tether: MCP server started again\n") {
		t.Errorf("standard error: %s", text)
	}
}

func TestMCPRunExitCodes(t *testing.T) {
	t.Parallel()
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			b := newTestEnv(t)
			for _, try := range []struct {
				args   []string
				code   int
				stdout string
				stderr string // in it
			}{
				{[]string{"cat"}, 0, "{\"method\":\"n\"}\n", ""},
				{[]string{"--", "sh", "-c", "cat; echo bye >&2; exit 3"}, 3, "{\"method\":\"n\"}\n", "bye\n"},
				{[]string{"sh", "-c", "kill -KILL $$"}, 137, "", ""},
				{[]string{"no-such-program"}, 127, "", "tether: no-such-program: not found in PATH ("},
				{[]string{"/etc/passwd"}, 126, "", "tether: /etc/passwd cannot be executed: permission denied; is it a program that may be executed (chmod +x)?\n"},
				{[]string{"--cwd", "/no/such/directory", "cat"}, 125, "", "working directory"},
				{[]string{"--cwd", "/", "sh", "-c", `echo "{\"method\":\"$PWD\"}"`}, 0, "{\"method\":\"/\"}\n", ""},
				{[]string{}, 125, "", "a command to run is missing"},
				{[]string{"--env", "=x", "cat"}, 125, "", "--env"},
			} {
				got := b.tether(strings.NewReader("{\"method\":\"n\"}"), append(append([]string{"mcp-run"}, url...), try.args...)...)
				if got.code != try.code || got.stdout != try.stdout || !strings.Contains(got.stderr, try.stderr) || try.stderr == "" && got.stderr != "" {
					t.Errorf("%q: %+v", try.args, got)
				}
			}
			// While a request waits for its answer, the server may take as long as it needs.
			long := b.tether(strings.NewReader(`{"id":1,"method":"n"}`), append(append([]string{"mcp-run"}, url...), "sh", "-c", "head -c 9000000 /dev/zero")...)
			if long.code != 125 || !strings.Contains(long.stderr, "stdout line is longer than 8388608 bytes") {
				t.Errorf("a long line: %+v", long)
			}
			b.isEmpty()
		})
	}
}

// If a command is not an MCP server, one message says so, with the first line that is not a
// JSON-RPC message.
func TestMCPRunReportsLinesThatAreNotMessages(t *testing.T) {
	t.Parallel()
	const hint = "tether: an MCP server prints nothing else there; check its flags (some servers need --stdio), and that it logs to standard error\n"
	first := func(number int, quoted string) string {
		return fmt.Sprintf("tether: line %d of the standard output of sh is not a JSON-RPC message: %s\n", number, quoted) + hint
	}
	const left = "tether: sh has ended with exit code 0 and left 1 request without an answer\n"
	b := newTestEnv(t)
	url := tethertest.StartServer(t, server.Config{}).URL
	for _, try := range []struct{ script, stdout, stderr string }{
		{`printf 'ready\033[1m\nagain\n'`, "", first(1, `"ready\x1b[1m"`) + left},
		{`printf '\n{"method":"n"}\n[x\n'`, "{\"method\":\"n\"}\n", first(3, `"[x"`) + left},
		{`printf '{"level":"info"}\n{"id":1,"result":{}}\n'`, "{\"level\":\"info\"}\n{\"id\":1,\"result\":{}}\n", first(1, `"{\"level\":\"info\"}"`)},
		{`printf '%0119dä%050d\n' 1 2`, "", first(1, `"`+strings.Repeat("0", 118)+`1"…`) + left},
		{`printf '{"id":1,"error":{"code":1,"message":"no"}}\n[{"id":null,"error":{}},{"method":"m"}]\n'`,
			"{\"id\":1,\"error\":{\"code\":1,\"message\":\"no\"}}\n[{\"id\":null,\"error\":{}},{\"method\":\"m\"}]\n", ""},
		{`true`, "", left},
	} {
		got := b.tether(strings.NewReader(`{"id":1,"method":"initialize"}`), "mcp-run", "--url", url, "--", "sh", "-c", "read -r hello; "+try.script)
		if got != (end{0, try.stdout, try.stderr}) {
			t.Errorf("%s: got %+v\nwant %q, %q", try.script, got, try.stdout, try.stderr)
		}
	}
}

// A signal, and a client that no longer reads, end the server.
func TestMCPRunEndsBySignalAndClosedOutput(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"signal", "closed output"} {
		t.Run(how, func(t *testing.T) {
			b := newTestEnv(t)
			executor := tethertest.StartServer(t, server.Config{})
			cmd := b.command("mcp-run", "--url", executor.URL, "--cwd", b.work, "--", "sh", "-c", `echo $$ > pid; echo "{}"; while read -r x; do echo "{}"; done; exec sleep 1000`)
			in, out := piped(t, cmd)
			if _, err := io.ReadFull(out, make([]byte, len("{}\n"))); err != nil {
				t.Fatal(err)
			}
			want := exitSignal + int(syscall.SIGTERM)
			if how == "signal" {
				cmd.Process.Signal(syscall.SIGTERM)
			} else {
				want = 0
				out.Close()
				io.WriteString(in, "{}\n")
			}
			if cmd.Wait(); cmd.ProcessState.ExitCode() != want {
				t.Errorf("%v", cmd.ProcessState)
			}
			pid, err := os.ReadFile(filepath.Join(b.work, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			tethertest.Eventually(t, func() error {
				if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil {
					return os.ErrExist
				}
				return nil
			})
		})
	}
}
