package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/internal/tethertest"
)

// tether mcp starts even if its executor is down. Each call says why it fails, and works once the
// executor runs. A relative --cwd begins in the executor's directory.
func TestMCPStartsBeforeItsExecutor(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	url := "unix://" + filepath.Join(t.TempDir(), "s")
	var stderr sharedBuffer
	cmd := b.command("mcp", "--sandbox", "full", "--url", url, "--cwd", "testdata")
	cmd.Stderr = &stderr
	u := newMCPUser(t, &mcp.CommandTransport{Command: cmd, TerminateDuration: patience})
	run := map[string]any{"login": false, "cmd": "pwd"}
	u.want("exec_command", run, "exec_command failed: ", url)
	u.want("exec_command", run, "exec_command failed: ", url)
	u.want("list_dir", map[string]any{}, "list_dir failed: ", url)
	if n := strings.Count(stderr.String(), "the next request tries again\n"); n != 1 {
		t.Errorf("standard error reports it %d times: %s", n, stderr.String())
	}
	startTether(t, "serve", "--listen", url).line(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	u.want("exec_command", run, "Process exited with code 0", "Output:\n"+here+"/testdata\n")
	u.want("list_dir", map[string]any{}, "script/")
	if err := u.Close(); err != nil || !cmd.ProcessState.Success() {
		t.Errorf("%v, %v", err, cmd.ProcessState)
	}
}

// The same for tether mcp-run: the first request that reaches the executor starts the MCP server.
func TestMCPRunStartsBeforeItsExecutor(t *testing.T) {
	t.Parallel()
	b, bin := newTestEnv(t), toolServer(t)
	url := "unix://" + filepath.Join(t.TempDir(), "s")
	cmd := b.command("mcp-run", "--quiet", "--url", url, "--", bin)
	var stderr sharedBuffer
	cmd.Stderr = &stderr
	in, out := piped(t, cmd)
	answers := bufio.NewReader(out)
	id := 0
	request := func(method, params string) string {
		t.Helper()
		id++
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
		for {
			line, err := answers.ReadString('\n')
			if err != nil {
				t.Fatalf("%v, %s", err, stderr.String())
			}
			if strings.Contains(line, fmt.Sprintf(`"id":%d`, id)) {
				return line
			}
		}
	}
	const hello = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"me","version":"1"}}`
	for range 2 * 3 { // more than starts would be allowed
		if got := request("initialize", hello); !strings.Contains(got, `"code":-32000,"message":"Transport closed: `) || !strings.Contains(got, url) {
			t.Fatalf("without an executor: %s", got)
		}
	}
	startTether(t, "serve", "--listen", url).line(t)
	if got := request("initialize", hello); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
		t.Fatalf("with an executor: %s", got)
	}
	io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	if got := request("tools/call", `{"name":"getenv","arguments":{"name":"HOME"}}`); !strings.Contains(got, os.Getenv("HOME")) {
		t.Errorf("a call: %s", got)
	}
	in.Close()
	if cmd.Wait(); !cmd.ProcessState.Success() || stderr.String() != "toolserver is ready\n" {
		t.Errorf("%v, standard error %s", cmd.ProcessState, stderr.String())
	}
}

// If the client leaves and the executor could never be reached, tether ends with that error.
func TestMCPRunWithoutExecutor(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	got := b.tether(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"), "mcp-run", "--url", "unix://"+b.tmp+"/missing", "--", "cat")
	if got.code != exitRefused || strings.Count(got.stdout, "\n") != 1 || !strings.Contains(got.stdout, b.tmp+"/missing") || !strings.Contains(got.stderr, b.tmp+"/missing") {
		t.Errorf("%+v", got)
	}
	b.isEmpty()
}

// A request that gives up does not end the attempt to connect: later requests share it.
func TestMCPExecutorSharesAnAttempt(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	gate, starts := filepath.Join(b.work, "gate"), filepath.Join(b.work, "starts")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("echo x >>%s; read x <%s; exec env %s=1 XDG_STATE_HOME=%s %s serve --listen stdio", starts, gate, beTether, b.state, b.self)
	e := mcpExecutor{label: "test"}
	e.url, e.stderr = "exec:sh -c '"+script+"'", io.Discard
	err := e.use(t.Context(), func(ctx context.Context) error {
		hurried, cancel := context.WithCancel(ctx)
		asked := make(chan error, 1)
		go func() {
			_, err := e.client(hurried)
			asked <- err
		}()
		tethertest.Eventually(t, func() error { _, err := os.Stat(starts); return err })
		cancel()
		if err := <-asked; err != context.Canceled {
			t.Errorf("the request that gave up: %v", err)
		}
		go func() { // waits until the transport command reads
			if err := os.WriteFile(gate, []byte("\n"), 0o600); err != nil {
				t.Error(err)
			}
		}()
		waiting, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := e.client(waiting)
		return err
	})
	if text, _ := os.ReadFile(starts); err != nil || string(text) != "x\n" {
		t.Errorf("%v, %q", err, text)
	}
	b.isEmpty()
}
