package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A testEnv runs the program in directories of its own, without a named server.
type testEnv struct {
	t                *testing.T
	self             string
	work, state, tmp string
	env              []string
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &testEnv{t: t, self: self, work: t.TempDir(), state: t.TempDir(), tmp: t.TempDir()}
	b.env = append(os.Environ(), beTether+"=1", "GORACE=atexit_sleep_ms=0", "XDG_STATE_HOME="+b.state, "XDG_RUNTIME_DIR=",
		"TMPDIR="+b.tmp, "LC_ALL=C", "TETHER_URL=", "TETHER_TOKEN=")
	return b
}

func (b *testEnv) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.t.Context(), b.self, args...)
	cmd.Dir, cmd.Env = b.work, b.env
	if args[0] == "mcp" {
		cmd.Env = append(slices.Clone(b.env), "PATH="+filepath.Dir(mcpBuilt(b.t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	return cmd
}

func (b *testEnv) tether(stdin io.Reader, args ...string) end {
	b.t.Helper()
	var out, stderr bytes.Buffer
	cmd := b.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		b.t.Fatal(err)
	}
	return end{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
}

// piped starts a command with pipes for its standard input and output.
func piped(t *testing.T, cmd *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return in, out
}

// startUntil starts a command, waits for the first line of its output, and returns the rest.
func startUntil(t *testing.T, cmd *exec.Cmd, first string) *bufio.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); !slices.Equal(strings.Fields(line), strings.Fields(first)) { // columns are as wide as the load is
		t.Fatalf("%q, %v", line, err)
	}
	return lines
}

// isEmpty checks that nothing was left behind.
func (b *testEnv) isEmpty() {
	b.t.Helper()
	servers, _ := filepath.Glob(filepath.Join(b.state, "tether", "server-*"))
	left, err := os.ReadDir(b.tmp)
	if err != nil || len(left) > 0 || len(servers) > 0 {
		b.t.Errorf("left behind: %v, %v, %v", left, servers, err)
	}
}

// servers has the flags for the two ways to run a command: in the process itself, and on a named
// server.
func servers(t *testing.T) map[string][]string {
	return map[string][]string{
		"embedded": nil,
		"named":    {"--url", startTether(t, "serve").line(t)},
	}
}

func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			b := newTestEnv(t)
			for _, try := range []struct {
				args   []string
				code   int
				stderr string // a part of it; if empty, nothing may be printed
			}{
				{[]string{"true"}, 0, ""},
				{[]string{"sh", "-c", "exit 3"}, 3, ""},
				{[]string{"--", "sh", "-c", "exit 255"}, 255, ""},
				{[]string{"sh", "-c", "kill -KILL $$"}, 137, ""},
				{[]string{"sh", "-c", "kill -TERM $$"}, 143, ""},
				{[]string{"no-such-program"}, 127, "tether: no-such-program: not found in PATH ("},
				{[]string{"./missing"}, 127, "tether: ./missing: no such file or directory\n"},
				{[]string{"/etc/passwd"}, 126, "tether: /etc/passwd cannot be executed: permission denied; is it a program that may be executed (chmod +x)?\n"},
				{[]string{"/etc"}, 126, "tether: /etc cannot be executed: "},
				{[]string{"--cwd", "/no/such/directory", "true"}, 125, "working directory"},
				{[]string{"--timeout", "100ms", "sleep", "1000"}, 124, ""},
				{[]string{"--timeout", "1h", "true"}, 0, ""},
				{[]string{"--timeout", "1900ms", "sh", "-c", "sleep 1000 & exit 3"}, 3, ""}, // only its output goes on
				{[]string{"--timeout", "100ms", "sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"}, 124, ""},
			} {
				got := b.tether(nil, append(append([]string{"run"}, url...), try.args...)...)
				if got.code != try.code || got.stdout != "" || !strings.Contains(got.stderr, try.stderr) || try.stderr == "" && got.stderr != "" {
					t.Errorf("%q: %+v", try.args, got)
				}
			}
			b.isEmpty()
		})
	}
	b := newTestEnv(t)
	if got := b.tether(nil, "run", "--url", "ws://127.0.0.1:1", "true"); got.code != exitRefused || !strings.Contains(got.stderr, "ws://127.0.0.1:1") {
		t.Errorf("without a server: %+v", got)
	}
}

func TestRunPassesStreamsUnchanged(t *testing.T) {
	t.Parallel()
	data := make([]byte, 64<<20)
	rand.Read(data)
	b := newTestEnv(t)
	b.self = released(t) // it would take long with a race detector
	serve := b.command("serve")
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer serve.Wait()
	defer serve.Process.Signal(syscall.SIGTERM)
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{"embedded": nil, "named": {"--url", strings.TrimSpace(url)}} {
		got := b.tether(bytes.NewReader(data), append(append([]string{"run"}, flags...), "--", "sh", "-c", "echo apart >&2; cat")...)
		if got.code != 0 || got.stderr != "apart\n" || sha256.Sum256([]byte(got.stdout)) != sha256.Sum256(data) {
			t.Errorf("%s: code %d, %d bytes of %d, standard error %q", name, got.code, len(got.stdout), len(data), got.stderr)
		}
	}
}

// If both outputs are the same file, one reader writes both, so they keep their order.
func TestOneReaderForOneFile(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	status := terminal.NewStatusLine(w, true)
	if n := terminal.NewSession(nil, w, w, false, true, status).Outputs(); n != 1 {
		t.Errorf("%d readers for one pipe", n)
	}
	if n := terminal.NewSession(nil, w, r, false, true, status).Outputs(); n != 1 { // both ends are one pipe
		t.Errorf("%d readers for one pipe", n)
	}
	if n := terminal.NewSession(nil, w, io.Discard, false, true, status).Outputs(); n != 2 {
		t.Errorf("%d readers for two places", n)
	}
	// The command has two pipes: it waits until each line is there.
	cmd := newTestEnv(t).command("run", "--", "sh", "-c", "for i in 1 2 3; do echo o$i; read x; echo e$i >&2; read x; done")
	cmd.Stdout, cmd.Stderr = w, w
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	lines := bufio.NewReader(r)
	for _, want := range []string{"o1\n", "e1\n", "o2\n", "e2\n", "o3\n", "e3\n"} {
		if line, err := lines.ReadString('\n'); line != want {
			t.Fatalf("%q, %v", line, err)
		}
		io.WriteString(in, "\n")
	}
	in.Close()
	rest, err := io.ReadAll(lines)
	if cmd.Wait() != nil || err != nil || len(rest) > 0 {
		t.Errorf("%v, %q, %v", cmd.ProcessState, rest, err)
	}
}

// If the output is not read, the command waits, as with a pipe. Then it goes on.
func TestRunCommandWaitsForTheReader(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	s := tethertest.StartServer(t, server.Config{SpoolLimit: 1 << 20})
	const all = 4 << 20 // the server keeps 1 MiB that was not read
	cmd := b.command("run", "--url", s.URL, "--", "head", "-c", strconv.Itoa(all), "/dev/zero")
	_, out := piped(t, cmd)
	c, err := client.Dial(t.Context(), s.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var last uint64
	same := 0 // answers of the server in a row that say that the command waits and has not written
	tethertest.Eventually(t, func() error {
		list, err := c.Processes(t.Context(), "")
		if err != nil || len(list) != 1 {
			return fmt.Errorf("processes %+v: %w", list, err)
		}
		p := list[0]
		if p.State != wire.StateRunning {
			t.Fatal("the command has written all its output")
		}
		if !p.Blocked || p.NextSeq != last {
			same, last = 0, p.NextSeq
		}
		if same++; same < 20 {
			return fmt.Errorf("the command still writes: %+v", p)
		}
		return nil
	})
	if n, err := io.Copy(io.Discard, out); n != all || err != nil {
		t.Errorf("%d bytes arrived, then %v", n, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestRunPassesEndOfInputAndEnvironment(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.env = append(b.env, "FROM_HERE=yes")
	for name, url := range servers(t) {
		args := append(append([]string{"run"}, url...), "-e", "FROM_HERE", "--env", "SET=a=b", "-e", "NOT_THERE", "--", "sh", "-c", `wc -c; echo "$FROM_HERE/$SET/${NOT_THERE-unset}"`)
		if got := b.tether(strings.NewReader("12345"), args...); strings.TrimSpace(got.stdout) != "5\nyes/a=b/unset" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	passesSignalsOn(t, b.command, []string{"run"}, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	b.isEmpty()
}

// With -n the standard input of the command is empty, although that of tether stays open.
func TestRunWithoutInput(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	open, keep, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	defer keep.Close()
	if got := b.tether(open, "run", "-n", "--", "sh", "-c", "cat; echo end"); got.code != 0 || got.stdout != "end\n" {
		t.Errorf("%+v", got)
	}
}

// passesSignalsOn sends signals to tether while a command runs that prints the signals it gets.
func passesSignalsOn(t *testing.T, command func(...string) *exec.Cmd, args []string, signals ...syscall.Signal) {
	t.Helper()
	const script = `for s in INT TERM HUP QUIT USR1 USR2 WINCH CONT; do trap "echo $s; exit 7" $s; done; echo ready; while :; do sleep 0.05; done`
	for _, sig := range signals {
		cmd := command(append(args[:len(args):len(args)], "sh", "-c", script)...)
		lines := startUntil(t, cmd, "ready\n")
		cmd.Process.Signal(sig)
		rest, _ := io.ReadAll(lines)
		cmd.Wait()
		if cmd.ProcessState.ExitCode() != 7 || "SIG"+string(rest) != unix.SignalName(sig)+"\n" {
			t.Errorf("%v: %v, %q", sig, cmd.ProcessState, rest)
		}
	}
}

// A command whose reader closes the pipe ends, as it would without tether.
func TestRunWithoutReader(t *testing.T) { endsWithoutReader(t, newTestEnv(t).command("run", "yes")) }

// endsWithoutReader closes the output of a command that never stops printing.
func endsWithoutReader(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGPIPE) {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}

// tether does not wait for a child in the background that holds the output open, and the child does
// not outlive the command.
func TestRunLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, url := range servers(t) {
		b := newTestEnv(t)
		begin := time.Now()
		got := b.tether(nil, append(append([]string{"run"}, url...), "--", "sh", "-c", "sleep 1000 & echo $!")...)
		if took := time.Since(begin); got.code != 0 || took < 2*time.Second || took > patience {
			t.Errorf("%s: %+v after %v", name, got, took)
		}
		pid := 0
		if _, err := fmt.Sscan(got.stdout, &pid); err != nil {
			t.Fatal(err)
		}
		if runs(pid) {
			t.Errorf("%s: process %d has outlived its session", name, pid)
		}
		b.isEmpty()
	}
}

// runs reports whether a process runs; a zombie does not.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestRunConfined(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	b := newTestEnv(t)
	work, err := os.MkdirTemp("/var/tmp", "tether-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(work)
	b.work = work
	for sandbox, code := range map[string]int{"read-only": 2, "workspace-write": 0, "full": 0} {
		got := b.tether(nil, "run", "--sandbox", sandbox, "--", "sh", "-c", "echo x > written || exit 2")
		if got.code != code {
			t.Errorf("%s: %+v", sandbox, got)
		}
		os.Remove(filepath.Join(work, "written"))
	}
	// The socket of the embedded server would let a command out.
	if got := b.tether(nil, "run", "--sandbox", "workspace-write", "--", "sh", "-c", "ls -l "+b.tmp+"/*/s"); strings.HasPrefix(got.stdout, "s") {
		t.Errorf("the socket can be seen: %+v", got)
	}
}

// start starts the program on a terminal.
func (b *testEnv) start(s *testTerminal, args ...string) *exec.Cmd {
	b.t.Helper()
	cmd := b.command(args...)
	cmd.Env = append(cmd.Env, "PS1=$ ", "ENV=", "SHELL=/bin/sh", "TERM=vt100")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.slave, s.slave, s.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			b, s := newTestEnv(t), newTestTerminal(t)
			t.Cleanup(s.leave)
			if err := pty.Setsize(s.master, &pty.Winsize{Rows: 11, Cols: 77}); err != nil {
				t.Fatal(err)
			}
			before, err := term.GetState(int(s.slave.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			cmd := b.start(s, append(append([]string{"run", "-t", "-e", "PS1", "-e", "ENV"}, url...), "--", "sh", "-i")...)
			s.until("$ ")
			s.typing("stty size; test -t 0 && test -t 1 && echo o''k $TERM\r")
			if out := s.until("ok vt100\r\n"); !strings.Contains(out, "11 77") {
				t.Errorf("size: %q", out)
			}
			if err := pty.Setsize(s.master, &pty.Winsize{Rows: 33, Cols: 99}); err != nil {
				t.Fatal(err)
			}
			s.typing("while ! stty size | grep 99; do sleep 0.1; done; echo the''n\r")
			if out := s.until("then\r\n"); !strings.Contains(out, "33 99") {
				t.Errorf("new size: %q", out)
			}
			s.typing("sh -c 'echo wai\"\"ting; exec sleep 1000'\r") // a process that prints this is in the foreground
			s.until("waiting\r\n")
			s.typing("\x03") // for sleep, not for tether
			s.until("$ ")
			s.typing("exit 9\r")
			if cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
				t.Errorf("ended with %v", cmd.ProcessState)
			}
			after, err := term.GetState(int(s.slave.Fd()))
			if err != nil || fmt.Sprint(*before) != fmt.Sprint(*after) {
				t.Errorf("the terminal is left in another mode: %v, %v", after, err)
			}
		})
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	b, s := newTestEnv(t), newTestTerminal(t)
	t.Cleanup(s.leave)
	b.env = append(b.env, "HOME="+b.work)
	cmd := b.start(s, "shell")
	s.typing("echo \"<$0>\"; exit 5\r")
	s.until("<-") // a login shell
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
	if got := b.tether(nil, "shell"); got.code != exitRefused || !strings.Contains(got.stderr, "needs a terminal") {
		t.Errorf("without a terminal: %+v", got)
	}
}

// The escape keys work while the server does not answer.
func TestLeaveShellByEscape(t *testing.T) {
	t.Parallel()
	b, s := newTestEnv(t), newTestTerminal(t)
	t.Cleanup(s.leave)
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	cmd := b.start(s, "run", "-te", "PS1", "-e", "ENV", "--url", cable.URL(), "--", "sh", "-i")
	s.until("$ ")
	cable.Cut()
	s.until("connection lost, reconnecting")
	s.typing("echo never\r~.")
	s.until("\r\ntether: disconnected while the connection was lost: the command runs on until the server ends its session")
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitLost {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}
