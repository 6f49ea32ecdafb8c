package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/certs"
	"github.com/tetherexec/tether/internal/tethertest/executable"
)

// wantStderr runs tether and compares its exit code and its standard error. There must be no
// standard output.
func (b *testEnv) wantStderr(code int, want string, args ...string) {
	b.t.Helper()
	if got := b.tether(nil, args...); got.code != code || got.stdout != "" || got.stderr != want {
		b.t.Errorf("tether %s\nended with %d, want %d, and printed %q\n%s\nwant\n%s",
			strings.Join(args, " "), got.code, code, got.stdout, got.stderr, want)
	}
}

// program writes a shell script with a name into the PATH of the commands.
func (b *testEnv) program(name, script string) {
	b.t.Helper()
	bin := filepath.Join(b.work, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := executable.Write(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n")); err != nil {
		b.t.Fatal(err)
	}
	b.env = append(b.env, "PATH="+bin+":/usr/bin:/bin")
}

// unused returns an address of this machine on which no server listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// If a server cannot be reached, the error says why, and what to do.
func TestErrorsWithoutAServer(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	url := "ws://" + unused(t)
	refused := "tether: cannot connect to " + url + ": no server listens there; start one with `tether serve --listen " + url + "`\n"
	for _, args := range [][]string{{"ps"}, {"logs", "x"}, {"kill", "x"}, {"sessions"}, {"why", "x"}, {"rm", "x"}, {"fs", "ls"}, {"cp", "x", ":x"}} {
		b.wantStderr(exitError, refused, append(args, "--url", url)...)
	}
	for _, name := range []string{"run", "attach", "wait", "mcp-run"} {
		b.wantStderr(exitRefused, refused, name, "--url", url, "x")
	}
	secure := strings.Replace(url, "ws:", "wss:", 1) // the listener would need more than an address
	b.wantStderr(exitRefused, "tether: cannot connect to "+secure+": no server listens there; start one with `tether serve`\n", "run", "--url", secure, "x")

	missing := "unix://" + filepath.Join(b.work, "missing.sock")
	b.wantStderr(exitRefused, "tether: cannot connect to "+missing+": no server listens there: the socket does not exist; start one with `tether serve --listen "+missing+"`\n",
		"run", "--url", missing, "true")
	left := filepath.Join(b.work, "left.sock") // of a server that was killed
	l, err := net.Listen("unix", left)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	b.wantStderr(exitRefused, "tether: cannot connect to unix://"+left+": no server listens there; start one with `tether serve --listen unix://"+left+"`\n",
		"run", "--url", "unix://"+left, "true")
	b.wantStderr(exitError, "tether: no server is running; name one with --url or TETHER_URL, or start something with `tether run --detach`\n", "logs", "x")
}

// Errors of ssh: it cannot connect, or there is no tether on the other machine.
func TestErrorsOfSSH(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.program("ssh", "echo 'there is no tether on this machine' >&2; exit 86")
	b.wantStderr(exitRefused, "tether: cannot connect to ssh://build: there is no tether on that machine; copy it there by leaving out --no-deploy, or install it, so that `ssh build tether version` works\n",
		"run", "--no-deploy", "--url", "ssh://build", "true")
	b.wantStderr(exitError, "tether: cannot connect to ssh://me@build:2222: there is no tether on that machine; copy it there by leaving out --no-deploy, or install it, so that `ssh -p 2222 me@build tether version` works\n",
		"ps", "--wait", "1h", "--no-deploy", "--url", "ssh://me:secret@build:2222")
	b.wantStderr(exitRefused, "tether: copy tether to ssh://build: the connection was lost: `ssh` has ended (exit status 86): there is no tether on this machine\n",
		"run", "--url", "ssh://build", "true")
	b.program("ssh", "echo 'sh: 1: exec: tether: Exec format error' >&2; exit 126")
	b.wantStderr(exitRefused, "tether: cannot connect to ssh://build: `ssh` has ended (exit status 126): sh: 1: exec: tether: Exec format error; the tether on that machine cannot be executed: replace it or remove it\n",
		"run", "--url", "ssh://build", "true")

	b.program("ssh", "echo Welcome >&2; echo 'me@build: Permission denied (publickey).' >&2; exit 255")
	b.wantStderr(exitRefused, "Welcome\ntether: cannot connect to ssh://build: `ssh` has ended (exit status 255): me@build: Permission denied (publickey).; `ssh build true` must work without asking anything\n",
		"run", "--url", "ssh://build", "true")

	b.wantStderr(exitRefused, "tether: cannot connect to exec:no-such-command: `no-such-command` cannot be started: executable file not found in $PATH; is it installed?\n",
		"run", "--url", "exec:no-such-command x", "true")
	b.wantStderr(exitRefused, "tether: cannot connect to exec:echo: the server sent something that is not a message of the protocol\n",
		"run", "--url", "exec:echo hello", "true")
}

// Errors about addresses, certificates and tokens that do not fit the server.
func TestErrorsOfTLSAndTokens(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	cert, key := certs.New(t, "server")
	token, other := filepath.Join(b.work, "token"), filepath.Join(b.work, "other")
	for _, path := range []string{token, other} {
		if got := b.tether(nil, "token", path); got.code != 0 {
			t.Fatalf("%+v", got)
		}
	}
	secure := startTether(t, "serve", "--listen", "wss://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key).line(t)
	open := startTether(t, "serve", "--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-token-file", token).line(t)
	at := func(url, scheme string) string { return scheme + url[strings.Index(url, "://"):] }
	run := func(want, url string, flags ...string) {
		t.Helper()
		b.wantStderr(exitRefused, "tether: cannot connect to "+url+": "+want+"\n", append(append([]string{"run", "--url", url}, flags...), "true")...)
	}
	run("that port speaks TLS; use "+secure, at(secure, "ws"))
	run("that port does not speak TLS; use "+open, at(open, "wss"))
	run("its certificate is not signed by an authority that is trusted here; name a file with the certificate, or with that of its authority, with --tls-ca", secure)
	run("its certificate is not for localhost but for 127.0.0.1", strings.Replace(secure, "127.0.0.1", "localhost", 1), "--tls-ca", cert)
	run("it requires a token; name the file that holds it with --token-file, or set TETHER_TOKEN", open)
	run("it refuses the token; --token-file "+other+" must hold a token that the server accepts", open, "--token-file", other)
	b.env = append(b.env, "TETHER_TOKEN=guess")
	run("it refuses the token; TETHER_TOKEN must be a token that the server accepts", open)
	b.wantStderr(exitRefused, "tether: --token-file missing: no such file or directory\n", "run", "--url", open, "--token-file", "missing", "true")
}

// Errors of a command that cannot be started, on a server and on this machine.
func TestErrorsOfStarts(t *testing.T) {
	t.Parallel()
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			b := newTestEnv(t)
			b.program("nothing", "") // for a PATH that is known
			file := filepath.Join(b.work, "file")
			if err := os.WriteFile(file, []byte("#!/no/such/interpreter\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			run := func(code int, want string, args ...string) {
				t.Helper()
				b.wantStderr(code, want, append(append([]string{"run", "--env", "PATH=/usr/bin:/bin"}, url...), args...)...)
			}
			for _, sandbox := range [][]string{nil, {"--sandbox", "read-only"}} {
				run(exitRefused, "tether: the working directory "+b.work+"/missing does not exist; choose one with --cwd\n", append(sandbox, "--cwd", b.work+"/missing", "true")...)
				run(exitRefused, "tether: the working directory "+file+" is not a directory; choose one with --cwd\n", append(sandbox, "--cwd", file, "true")...)
				run(exitNotFound, "tether: no-such-program: not found in PATH (/usr/bin:/bin)\n", append(sandbox, "no-such-program")...)
				run(exitNotFound, "tether: "+file+"x: no such file or directory\n", append(sandbox, file+"x")...)
				run(exitNotExecutable, "tether: "+file+" cannot be executed: permission denied; is it a program that may be executed (chmod +x)?\n", append(sandbox, file)...)
			}
			if err := os.Chmod(file, 0o755); err != nil {
				t.Fatal(err)
			}
			run(exitNotFound, "tether: "+file+" cannot be executed: its interpreter or loader does not exist\n", file)
		})
	}
}

// A server that was killed and started again does not know the session.
func TestErrorsAfterARestart(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	line, restart := restartable(t)
	cmd := b.command("run", "--quiet", "--url", line.URL(), "--", "sh", "-c", "echo here; exec sleep 1000")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(out, make([]byte, len("here\n")))
	restart()
	cmd.Wait()
	const want = "tether: the connection was lost; the session could not be resumed: " + forgotten + "\n"
	if got := withoutLoss(stderr.String()); cmd.ProcessState.ExitCode() != exitLost || got != want {
		t.Errorf("%v, printed\n%s\nwant\n%s", cmd.ProcessState, got, want)
	}
}

// forgotten is the message for a session that the server does not know.
const forgotten = "the server does not know the session any more: it was restarted, or there was no connection for too long; what ran in the session has ended"

// restartable returns a cable to a server, and a function that replaces the server by another.
func restartable(t *testing.T) (line *cable.Cable, restart func()) {
	t.Helper()
	first := tethertest.StartServer(t, server.Config{})
	line, err := cable.Lay(t.Context(), cable.Config{Target: first.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(line.Close)
	return line, func() {
		t.Helper()
		line.Cut()
		first.Stop()
		if err := line.Aim(tethertest.StartServer(t, server.Config{}).URL); err != nil {
			t.Fatal(err)
		}
		line.Mend()
	}
}

// lossReason matches the reason why a connection ended, with or without a reset, which is random.
var lossReason = regexp.MustCompile(`(the connection was lost): connection reset by peer;`)

func withoutLoss(text string) string { return lossReason.ReplaceAllString(text, "$1;") }

// Errors for a model keep the forms of unified exec, with causes in plain words.
func TestErrorsOfMCPTools(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	line, restart := restartable(t)
	u := b.startMCP("--url", line.URL(), "--sandbox", "full")
	want := func(text, tool string, args map[string]any) {
		t.Helper()
		if got := withoutLoss(u.want(tool, args)); got != text {
			t.Errorf("%s:\n%s\nwant\n%s", tool, got, text)
		}
	}
	want("exec_command failed: Failed to create unified exec process: the working directory /no/such does not exist",
		"exec_command", map[string]any{"cmd": "true", "workdir": "/no/such"})
	want("failed to parse function arguments: `cmd` is missing", "exec_command", map[string]any{})
	want("failed to parse function arguments: `cmd` must be a string, not a number", "exec_command", map[string]any{"cmd": 7})
	want("failed to parse function arguments: `path` is missing", "read_file", map[string]any{})
	want("failed to parse function arguments: `max_lines` must be a whole number, not a string", "read_file", map[string]any{"path": "x", "max_lines": "all"})
	want("read_file failed: /no/such: no such file or directory", "read_file", map[string]any{"path": "/no/such"})
	want("read_file failed: /etc: not a file", "read_file", map[string]any{"path": "/etc"})
	want("list_dir failed: /etc/passwd: not a directory", "list_dir", map[string]any{"path": "/etc/passwd"})

	session, _ := u.starts(map[string]any{"cmd": "echo here; exec sleep 1000", "yield_time_ms": 250, "login": false}, "here")
	restart()
	want("write_stdin failed: Unified exec process failed: the connection was lost; the session could not be resumed: "+forgotten+
		". The command was started, and it is unknown how it ended: before you run it again, look for its effects with another command: files it would have written, processes it would have left (`ps`)",
		"write_stdin", map[string]any{"session_id": session, "yield_time_ms": 30_000})
	u.want("exec_command", map[string]any{"cmd": "echo again", "login": false}, "Output:\nagain\n")
}

// Every command begins its own lines on standard error with "tether: ".
func TestErrorsBeginWithTether(t *testing.T) {
	t.Parallel()
	for _, name := range commandNames(newRoot(nil, nil, nil, io.Discard), "") {
		if name == "" || strings.HasPrefix(name, "completion") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newTestEnv(t).tether(nil, append(strings.Fields(name), "--no-such-flag")...)
			want := "tether: unknown flag: --no-such-flag\n\nFor more information, try 'tether " + name + " --help'.\n"
			if got.code == 0 || got.stdout != "" || got.stderr != want {
				t.Errorf("%+v, want %q", got, want)
			}
		})
	}
	b := newTestEnv(t)
	b.wantStderr(exitUsage, "tether: unknown command \"srve\"; did you mean serve?\n\nFor more information, try 'tether --help'.\n", "srve")
	b.wantStderr(exitError, "tether: `--session-ttl` 25h0m0s is more than `--session-ttl-max` 24h0m0s\n", "serve", "--session-ttl", "25h")
	b.wantStderr(exitError, "tether: warning: `--enable` has no effect: tether has no Codex features\ntether: `--session-ttl` 25h0m0s is more than `--session-ttl-max` 24h0m0s\n", "serve", "--enable", "x", "--session-ttl", "25h")
	long := "/" + strings.Repeat("x", 300)
	b.wantStderr(exitError, "tether: open state directory: lstat "+long+": file name too long; name a directory of your own with XDG_STATE_HOME or `--state-dir`\n",
		"serve", "--state-dir", long, "--log-level", "error")
	b.wantStderr(exitRefused, "tether: --cwd missing: no such file or directory\n", "sandbox", "run", "--cwd", "missing", "true")
}
