package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// startMCP starts `tether mcp` in the work directory, with an MCP client.
func (b *testEnv) startMCP(args ...string) *mcpUser {
	b.t.Helper()
	args = append([]string{"mcp", "--cwd", b.work}, args...)
	return newMCPUser(b.t, &mcp.CommandTransport{Command: b.command(args...), TerminateDuration: patience})
}

// The wall time of a result counts from the call, also for a command that ends at once.
func TestMCPWallTime(t *testing.T) {
	t.Parallel()
	u := newTestEnv(t).startMCP("--sandbox", "full")
	began := time.Now()
	text := u.want("exec_command", map[string]any{"cmd": "sleep 0.1", "login": false})
	took := time.Since(began).Seconds()
	var wall float64
	_, after, _ := strings.Cut(text, "Wall time: ")
	if _, err := fmt.Sscanf(after, "%f seconds", &wall); err != nil || wall < 0.1 || wall > took {
		t.Errorf("wall time %v of a call that took %v s: %v", wall, took, err)
	}
}

// A shell that does not exist is an error, here and on a named server.
func TestMCPMissingShell(t *testing.T) {
	t.Parallel()
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			u := newTestEnv(t).startMCP(append(url, "--sandbox", "full")...)
			for _, shell := range []string{"/nonexistent", "/nonexistent/sh", "/nonexistent/bash", "nonexistent"} {
				text := u.want("exec_command", map[string]any{"cmd": "echo ran", "shell": shell, "login": false})
				if strings.Contains(text, "ran") || strings.Contains(text, "Process ") {
					t.Errorf("%s: %s", shell, text)
				}
			}
			u.want("exec_command", map[string]any{"cmd": "echo ran", "login": false}, "Output:\nran\n")
		})
	}
}

// Shells are login shells by default, and with --no-login if a call asks for one.
func TestMCPNoLogin(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	home := t.TempDir()
	b.env = append(b.env, "HOME="+home, "SHELL=/bin/sh")
	if err := os.WriteFile(filepath.Join(home, ".profile"), []byte("echo profile\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const bare, profile = "Output:\nran\n", "Output:\nprofile\nran\n"
	for _, row := range []struct {
		flags []string
		login any
		want  string
	}{
		{nil, nil, profile}, {nil, false, bare},
		{[]string{"--no-login"}, nil, bare}, {[]string{"--no-login"}, true, profile},
	} {
		u := b.startMCP(append(row.flags, "--sandbox", "full")...)
		args := map[string]any{"cmd": "echo ran"}
		if row.login != nil {
			args["login"] = row.login
		}
		u.want("exec_command", args, row.want)
		tools, err := u.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		schema := fmt.Sprint(tools.Tools[slices.IndexFunc(tools.Tools, func(tool *mcp.Tool) bool { return tool.Name == "exec_command" })].InputSchema)
		if want := fmt.Sprintf("Defaults to %t.", row.flags == nil); !strings.Contains(schema, "profile. "+want) {
			t.Errorf("%q: no %q in %s", row.flags, want, schema)
		}
	}
}

// A result that is too long has one mark, which says how much is missing and how to find it.
func TestMCPTruncationMark(t *testing.T) {
	t.Parallel()
	u := newTestEnv(t).startMCP("--sandbox", "full")
	for _, lines := range []int{20_000, 400_000} { // unified exec drops a part of the second
		text := u.want("exec_command", map[string]any{"cmd": fmt.Sprintf("seq -f %%08.0f 1 %d", lines), "login": false, "yield_time_ms": 30_000})
		var tokens, missing int
		var chunk string
		_, after, _ := strings.Cut(text, "Original token count: ")
		fmt.Sscan(after, &tokens)
		before, after, _ := strings.Cut(after, "…")
		if _, err := fmt.Sscanf(after, "%d tokens truncated; search_output with chunk_id %q finds them…\n", &missing, &chunk); err != nil {
			t.Fatalf("%v in %.300q", err, after)
		}
		_, head, _ := strings.Cut(before, "Output:\n")
		_, tail, _ := strings.Cut(after, "…\n")
		if shown := (len(head) + len(tail)) / 4; tokens != lines*9/4 || missing < tokens-shown-2 || missing > tokens-shown+2 {
			t.Errorf("%d of %d tokens are missing, %d are shown", missing, tokens, shown)
		}
		for _, mark := range []string{"Warning", "omitted", "truncated", "missing"} {
			if n := strings.Count(text, mark); n != strings.Count("truncated", mark) {
				t.Errorf("%d times %q", n, mark)
			}
		}
		u.want("search_output", map[string]any{"chunk_id": chunk, "pattern": fmt.Sprintf("^%08d$", lines/2+5)}, fmt.Sprintf(":%08d\n", lines/2+5))
	}
}

// A command that fails because the sandbox has no network gets a note, and the user is asked
// for the network if the client supports that.
func TestMCPClosedNetwork(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	b := newTestEnv(t)
	b.work = outsideTmp(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	connect := fmt.Sprintf("bash -c 'echo text > /dev/tcp/127.0.0.1/%d'", l.Addr().(*net.TCPAddr).Port)
	const unresolved = "echo 'curl: (6) Could not resolve host: x.invalid' >&2; exit 6"
	args := func(cmd string) map[string]any { return map[string]any{"cmd": cmd, "login": false} }
	const because = "Note: the sandbox has no network, which seems to be why the command failed"

	for approval, remedy := range map[string]string{
		"never":      "; the user can open the network with the --network or --allow-host options of `tether mcp`",
		"on-request": `; exec_command with additional_permissions {"network":{"enabled":true}} asks the user for it`,
	} {
		u := b.startMCP("--approval", approval)
		u.want("exec_command", args(connect), "Process exited with code 1", because+remedy)
		u.want("exec_command", args(unresolved), "Process exited with code 6", because+remedy)
		if text := u.want("exec_command", args("exit 6"), "Process exited with code 6"); strings.Contains(text, "Note:") || len(u.asked) > 0 {
			t.Errorf("%s\nasked %q", text, u.asked)
		}
		u.Close()
	}

	u := b.startMCP()
	u.action = "decline"
	u.want("exec_command", args(unresolved), "Process exited with code 6", because, "Note: rejected by user: the command was not run again with the network")
	u.action = "accept"
	u.want("exec_command", args(connect), "Process exited with code 0", "Note: after an approval the command was run again from its beginning, with the network")
	outside := filepath.Join(outsideTmp(t), "file")
	u.want("exec_command", args(fmt.Sprintf("[ -z \"$CODEX_SANDBOX_NETWORK_DISABLED\" ] || { %s; }; echo x > %s", unresolved, outside)), "Read-only file system")
	if len(u.asked) != 3 || !strings.Contains(u.asked[1], "seems to need the network") || strings.Contains(u.asked[1], "without sandbox") {
		t.Errorf("asked %q", u.asked)
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("with the network the command was not in its sandbox")
	}
	u.Close()
	b.isEmpty()
}

// The instructions and the text of exec_command say where commands run and what they may
// do, as this server is configured, and for clients that can ask how to get more.
func TestMCPInstructions(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.work = outsideTmp(t)
	named := servers(t)["named"]
	own := filepath.Join(t.TempDir(), "own.json")
	if err := os.WriteFile(own, []byte(`{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},`+
		`{"path":{"type":"path","path":"file:///srv/open"},"access":"write"}]},"network":"enabled"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.env = append(b.env, "SHELL=/bin/sh")
	const off, on, asks, cannot = "The network is off for commands.", "The network is on for commands.", "To ask the user for more, call exec_command", "The user cannot be asked to allow more."
	here := "Commands run on this machine (Linux), in " + b.work + " unless workdir names another directory, with /bin/"
	write := "may write only " + b.work + ", /tmp and $TMPDIR, but not " + b.work + "/.git"
	for _, row := range []struct {
		flags []string
		mute  bool // the client has no elicitation
		want  []string
		not   []string
	}{
		{nil, false, []string{here, "sh as a login shell.", write, "they may read everything", off, asks, "the user is asked whether to run it again"}, []string{cannot}},
		{nil, true, []string{here, write, off, cannot}, []string{asks, "sandbox_permissions"}},
		{[]string{"--approval", "on-request", "--no-login"}, false, []string{off, asks, "sh.\n"}, []string{cannot, "run it again", "login shell."}},
		{[]string{"--approval", "never"}, false, []string{off, cannot}, []string{asks, "sandbox_permissions"}},
		{[]string{"--sandbox", "read-only", "--network"}, false, []string{"may write no files; they may read everything.", on, asks}, []string{off}},
		{[]string{"--sandbox", "full"}, false, []string{here, "There is no sandbox"}, []string{off, on, asks, cannot, "sandbox_permissions"}},
		{[]string{"--sandbox", own}, false, []string{"may write only /srv/open; they may read everything.", on}, []string{off}},
		{named, false, []string{"Commands run on the machine at " + named[1] + " (Linux), in " + b.work, write, off, asks}, []string{"this machine"}},
	} {
		cmd := b.command(append([]string{"mcp", "--cwd", b.work}, row.flags...)...)
		transport := &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}
		var session *mcp.ClientSession
		if row.mute {
			var err error
			if session, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil); err != nil {
				t.Fatal(err)
			}
		} else {
			session = newMCPUser(t, transport).ClientSession
		}
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		exec := tools.Tools[slices.IndexFunc(tools.Tools, func(tool *mcp.Tool) bool { return tool.Name == "exec_command" })]
		for of, text := range map[string]string{"instructions": session.InitializeResult().Instructions, "exec_command": exec.Description + fmt.Sprint(exec.InputSchema)} {
			for _, want := range row.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q: %s: no %q in\n%s", row.flags, of, want, text)
				}
			}
			for _, not := range row.not {
				if strings.Contains(text, not) {
					t.Errorf("%q: %s: %q in\n%s", row.flags, of, not, text)
				}
			}
		}
		session.Close()
	}
	b.isEmpty()
}

// With --allow-host commands reach these hosts, the model is told which, and a command that
// was refused another one gets a note and the question.
func TestMCPAllowHosts(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	allowed, other := startWebServer(t), startWebServer(t)
	get := func(host string) map[string]any {
		return map[string]any{"cmd": "curl -sf http://" + host + "/ && echo [$CODEX_SANDBOX_NETWORK_DISABLED]", "login": false}
	}
	refused := "Note: the sandbox does not let the command reach " + other + ", which seems to be why the command failed; "
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			b := newTestEnv(t)
			b.work = outsideTmp(t)
			flags := append(url, "--allow-host", allowed, "--allow-host", "*.example", "--deny-host", "b.example")
			u := b.startMCP(append(flags, "--approval", "never")...)
			told := "Commands reach only these hosts, through the proxy that HTTP_PROXY and the like name: " + allowed + " and *.example; but not b.example.\n"
			if text := u.InitializeResult().Instructions; !strings.Contains(text, told) {
				t.Errorf("no %q in\n%s", told, text)
			}
			u.want("exec_command", get(allowed), "Process exited with code 0", "Output:\nhello[]\n")
			u.want("exec_command", get(other), "Process exited with code 22", refused+"the user can open the network with the --network or --allow-host options")
			u.Close()
			u = b.startMCP(flags...)
			u.action = "accept"
			u.want("exec_command", get(other), "Process exited with code 0", "run again from its beginning, with the network", "Output:\nhello[]\n")
			if len(u.asked) != 1 || !strings.Contains(u.asked[0], "was not allowed to reach "+other+".") {
				t.Errorf("asked %q", u.asked)
			}
			u.Close()
			b.isEmpty()
		})
	}
}

// Hosts that the user has allowed for good are in a file, and count in later sessions.
func TestMCPRememberedHosts(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	host := startWebServer(t)
	b := newTestEnv(t)
	b.work = outsideTmp(t)
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("# allowed\n"+host+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--allow-host", "*.example", "--remember-hosts", file}
	u := b.startMCP(flags...)
	u.want("exec_command", map[string]any{"cmd": "curl -sf http://" + host + "/", "login": false}, "Process exited with code 0", "Output:\nhello")
	u.Close()
	b.isEmpty()
	if err := os.WriteFile(file, []byte("https://x.example/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := b.tether(strings.NewReader(""), append([]string{"mcp"}, flags...)...); got.code != exitRefused || !strings.Contains(got.stderr, file+`, line 1: "https://x.example/"`) {
		t.Errorf("a bad line: %+v", got)
	}
}
