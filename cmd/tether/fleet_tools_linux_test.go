package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A fleet with two hosts serves files, terminals and MCP clients like one server.
func TestToolsThroughAGateway(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	f.startHost(t, "a")
	f.startHost(t, "b")
	_, url := f.startGateway(t)
	f.await(t, "a reachable", "b reachable")
	f.env = append(f.env, "TETHER_URL="+url, "PS1=$ ", "ENV=")

	file := filepath.Join(f.work, "file")
	if err := os.WriteFile(file, []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := f.tether(nil, "fs", "cat", file); got != (end{stdout: "text\n"}) {
		t.Errorf("fs cat: %+v", got)
	}

	s := newTestTerminal(t)
	t.Cleanup(s.leave)
	cmd := f.start(s, "run", "--tty", "-e", "PS1", "-e", "ENV", "--", "sh", "-i")
	s.until("$ ")
	s.typing("tty >/dev/null && echo on a ter''minal; exit 6\r")
	s.until("on a terminal\r\n")
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("run --tty: %v", cmd.ProcessState)
	}

	// Commands in the background, on hosts that the gateway chooses: each is found wherever it is.
	for i := range 4 {
		name := fmt.Sprint("adder", i)
		if got := f.tether(nil, "run", "-di", "--name", name, "--", "sh", "-c", "echo ready; read a; read b; echo $((a+b)); exit 4"); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		logs := f.command("logs", "--follow", name)
		rest := startUntil(t, logs, "ready\n")
		if got := f.tether(strings.NewReader(fmt.Sprintf("%d\n22\n", i)), "attach", name); got.code != 4 || got.stdout != fmt.Sprintf("ready\n%d\n", 22+i) {
			t.Errorf("attach: %+v", got)
		}
		text, err := io.ReadAll(rest)
		if err := logs.Wait(); err != nil || string(text) != fmt.Sprintln(22+i) {
			t.Errorf("logs: %q, %v", text, err)
		}
		if err != nil {
			t.Error(err)
		}
		if got := f.tether(nil, "why", name); got.code != 0 || !strings.Contains(got.stdout, "it has ended with exit code 4") {
			t.Errorf("why: %+v", got)
		}
		if got := f.tether(nil, "rm", name); got != (end{}) {
			t.Errorf("rm: %+v", got)
		}
	}

	u := newMCPUser(t, &mcp.CommandTransport{Command: f.command("mcp", "--url", url)})
	u.want("exec_command", map[string]any{"cmd": "echo of an agent; exit 3"}, "of an agent", "Process exited with code 3")
	u.prompt()
}

// A copy goes on through another gateway when its own is killed.
func TestCopyThroughTwoGateways(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	f.startHost(t, "a")
	f.startHost(t, "b")
	gateway, url := f.startGateway(t)
	f.await(t, "a reachable", "b reachable")
	from, to := filepath.Join(f.work, "from"), filepath.Join(f.work, "to")
	for i := range 40 {
		dir := filepath.Join(from, fmt.Sprint("sub", i%4))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		random(t, filepath.Join(dir, fmt.Sprint(i)), 1<<20+i)
	}
	for _, direction := range []struct{ name, from, to string }{{"upload", from, ":" + to}, {"download", ":" + to, from + "-again"}} {
		cmd := f.command("cp", "--url", url, "--verbose", direction.from, direction.to)
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		messages := bufio.NewReader(pipe)
		first, err := messages.ReadString('\n')
		if err != nil || !strings.Contains(first, " -> ") {
			t.Fatalf("%q, %v", first, err)
		}
		gateway.Process.Kill()
		gateway.Wait()
		gateway, _ = f.startGateway(t, "--listen", url)
		text, err := io.ReadAll(messages)
		if err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil || !strings.Contains(string(text), "the connection was lost 1 time") {
			t.Errorf("%s: %v: %s", direction.name, err, tail(text))
		}
	}
	for _, copied := range []string{to, from + "-again"} {
		if text, err := exec.Command("diff", "-r", from, copied).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}
	}
}
