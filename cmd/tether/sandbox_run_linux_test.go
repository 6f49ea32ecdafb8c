package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/tetherexec/tether/internal/sandbox/bwrap"
	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/wire"
)

// needBubblewrap skips a test that cannot run here; in CI that is a failure.
func needBubblewrap(t *testing.T) string {
	t.Helper()
	name, err := bwrap.Find(bwrap.Dirs)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return name
}

// A sandboxEnv runs sandboxed commands in a directory outside /tmp, because most profiles allow
// writing to /tmp.
type sandboxEnv struct {
	t                    *testing.T
	self                 string
	work, outside, state string
}

// newSandboxEnv uses this test program as tether, with the race detector.
func newSandboxEnv(t *testing.T) *sandboxEnv {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return newSandboxEnvOf(t, self)
}

func newSandboxEnvOf(t *testing.T, self string) *sandboxEnv {
	t.Helper()
	needBubblewrap(t)
	dir, err := os.MkdirTemp("/var/tmp", "tether-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &sandboxEnv{t: t, self: self, work: dir + "/work", outside: dir + "/outside", state: dir + "/state"}
	for _, d := range []string{r.work, r.outside, r.state} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// command is tether with these arguments, in the workspace.
func (r *sandboxEnv) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), r.self, args...)
	cmd.Dir = r.work
	cmd.Env = append(os.Environ(), beTether+"=1", "GORACE=atexit_sleep_ms=0", "XDG_STATE_HOME="+r.state, "TMPDIR=/tmp", "LC_ALL=C")
	return cmd
}

// An end is how a command ended.
type end struct {
	code           int
	stdout, stderr string
}

func (r *sandboxEnv) tether(stdin string, args ...string) end {
	r.t.Helper()
	var out, stderr bytes.Buffer
	cmd := r.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		r.t.Fatal(err)
	}
	return end{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
}

// run is `tether sandbox run` without input.
func (r *sandboxEnv) run(args ...string) end {
	r.t.Helper()
	return r.tether("", append([]string{"sandbox", "run"}, args...)...)
}

func (r *sandboxEnv) file(name, text string) string {
	r.t.Helper()
	name = filepath.Join(r.outside, name)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return name
}

func TestSandboxRunPassesStreamsUnchanged(t *testing.T) {
	t.Parallel()
	r := newSandboxEnv(t)
	data := make([]byte, 3<<20)
	rand.Read(data)
	got := r.tether(string(data), "sandbox", "run", "--", "sh", "-c", "echo apart >&2; cat")
	if got.code != 0 || got.stdout != string(data) || got.stderr != "apart\n" {
		t.Errorf("code %d, %d bytes of %d, standard error %q", got.code, len(got.stdout), len(data), got.stderr)
	}
}

func TestSandboxRunExitCodes(t *testing.T) {
	t.Parallel()
	r := newSandboxEnvOf(t, released(t))
	legacy := r.file("legacy.json", `{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[]}},"windowsSandboxLevel":"disabled","useLegacyLandlock":true}`)
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
		{[]string{"--profile", legacy, "true"}, 125, "tether: failed to prepare process sandbox: "},
		{[]string{"--profile", "full", "sh", "-c", "exit 4"}, 4, ""},
		{[]string{"--profile", "full", "no-such-program"}, 127, "not found in PATH"},
	} {
		got := r.run(try.args...)
		if got.code != try.code || got.stdout != "" || !strings.Contains(got.stderr, try.stderr) || try.stderr == "" && got.stderr != "" {
			t.Errorf("%q: %+v", try.args, got)
		}
	}
	if left, err := os.ReadDir(r.work); err != nil || len(left) > 0 {
		t.Errorf("left in the workspace: %v, %v", left, err)
	}
}

// The sockets of the user's other programs can be seen only if a flag says so.
func TestUserSocketsFlag(t *testing.T) {
	t.Parallel()
	r := newSandboxEnvOf(t, released(t))
	socket := r.outside + "/agent"
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, try := range []struct {
		flags string
		ok    bool
	}{
		{"sandbox run --network --", false},
		{"sandbox run --network --user-sockets --", true},
		{"sandbox run --network --writable " + socket + " --", true},
		{"sandbox run --", true}, // without network it cannot be used
		{"run --sandbox read-only --network --", false},
		{"run --sandbox read-only --network --user-sockets --", true},
	} {
		cmd := r.command(append(strings.Fields(try.flags), "test", "-S", socket)...)
		cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+socket)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code > 1 || (code == 0) != try.ok {
			t.Errorf("%s: %v: %s", try.flags, err, out)
		}
	}
}

func TestSandboxRunProfiles(t *testing.T) {
	t.Parallel()
	r := newSandboxEnvOf(t, released(t))
	write := func(dir string) []string { return []string{"sh", "-c", "echo x > " + dir + "/written"} }
	network := []string{r.self, "be-child", "probe", "socket", "inet", "stream"}
	entry := `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`
	permissions := `{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[` + entry +
		`,{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}]}}`
	only := r.file("permissions.json", permissions)
	whole := r.file("sandbox.json", `{"permissions":`+permissions+`,"windowsSandboxLevel":"disabled","workspaceRoots":["`+wire.PathToURI(r.outside)+`"]}`)
	draft := r.file("draft.json", `{"mode":"disabled"}`)
	for _, try := range []struct {
		flags   string
		command []string
		ok      bool
	}{
		{"", write(r.work), true},
		{"", write("/tmp"), true},
		{"", write(r.outside), false},
		{"", network, false},
		{"--network", network, true},
		{"--network", write(r.outside), false},
		{"--writable ../outside", write(r.outside), true},
		{"--cwd ../outside", write(r.outside), true},
		{"--cwd ../outside", write(r.work), false},
		{"--profile read-only", write(r.work), false},
		{"--profile read-only --writable .", write(r.work), true},
		{"--profile full", write(r.outside), true},
		{"--profile full", network, true},
		{"--profile " + only, write(r.work), true},
		{"--profile " + only, write(r.outside), false},
		{"--profile " + only, write("/tmp"), false},
		{"--profile " + only, network, false},
		{"--profile " + only + " --network", network, true},
		{"--profile " + whole, write(r.outside), true},
		{"--profile " + whole, write(r.work), false},
		{"--profile " + draft, write(r.outside), true},
	} {
		got := r.run(append(append(strings.Fields(try.flags), "--"), try.command...)...)
		if (got.code == 0) != try.ok {
			t.Errorf("%s %q: %+v", try.flags, try.command, got)
		}
		for _, dir := range []string{r.work, r.outside, "/tmp"} {
			os.Remove(dir + "/written")
		}
	}
}

func TestSandboxRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	passesSignalsOn(t, newSandboxEnv(t).command, []string{"sandbox", "run"}, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
}

// As timeout and service managers do, the test sends SIGCONT after SIGTERM: a stopped command ends only then.
func TestSandboxRunEndsStoppedCommand(t *testing.T) {
	t.Parallel()
	const script = `(until grep -q 'State:.T' /proc/$$/status; do sleep 0.02; done; echo stopped) & kill -STOP $$; wait; echo continued`
	cmd := newSandboxEnv(t).command("sandbox", "run", "sh", "-c", script)
	lines := startUntil(t, cmd, "stopped\n")
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Process.Signal(syscall.SIGCONT)
	rest, _ := io.ReadAll(lines)
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) || len(rest) > 0 {
		t.Errorf("ended with %v, %q", cmd.ProcessState, rest)
	}
}

func TestSandboxRunWithoutReader(t *testing.T) {
	t.Parallel()
	endsWithoutReader(t, newSandboxEnv(t).command("sandbox", "run", "yes"))
}

// A testTerminal is a terminal for the program, whose user is the test.
type testTerminal struct {
	t             *testing.T
	master, slave *os.File
	read          chan []byte // output; closed when no process has the terminal open
	seen          string
}

func newTestTerminal(t *testing.T) *testTerminal {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &testTerminal{t: t, master: master, slave: slave, read: make(chan []byte)}
	go func() { // ends when the last process has closed the terminal
		defer close(s.read)
		for {
			buf := make([]byte, 4096)
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			s.read <- buf[:n]
		}
	}()
	return s
}

// leave closes the terminal. All programs on it must have ended.
func (s *testTerminal) leave() {
	s.slave.Close()
	for range s.read {
	}
	s.master.Close()
}

// patience is how long a test waits for an event that should come at once.
const patience = hang.Limit

// until reads until text has been printed, and returns all before it.
func (s *testTerminal) until(text string) string {
	s.t.Helper()
	late := time.After(patience)
	for {
		if before, after, found := strings.Cut(s.seen, text); found {
			s.seen = after
			return before
		}
		select {
		case data, ok := <-s.read:
			if !ok {
				s.t.Fatalf("the terminal has ended; so far: %q", s.seen)
			}
			s.seen += string(data)
		case <-late:
			s.t.Fatalf("%q was not printed, but %q", text, s.seen)
		}
	}
}

func (s *testTerminal) typing(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func TestSandboxRunOnATerminal(t *testing.T) {
	t.Parallel()
	r := newSandboxEnv(t)
	s := newTestTerminal(t)
	defer s.leave()
	master, slave := s.master, s.slave
	if err := pty.Setsize(master, &pty.Winsize{Rows: 11, Cols: 77}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	cmd := r.command("sandbox", "run", "--profile", "read-only", "--", "sh", "-i")
	cmd.Env = append(cmd.Env, "PS1=$ ", "ENV=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	s.until("$ ")
	s.typing("stty size; test -t 0 && test -t 1 && echo o''k\r")
	if out := s.until("ok\r\n"); !strings.Contains(out, "11 77") {
		t.Errorf("size: %q", out)
	}
	s.until("$ ")
	s.typing("trap 'echo re''sized' WINCH; echo se''t\r")
	s.until("set\r\n$ ")
	if err := pty.Setsize(master, &pty.Winsize{Rows: 33, Cols: 99}); err != nil {
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
	s.typing("echo x > forbidden; exit 9\r")
	if out := s.until("may be the reason"); !strings.Contains(out, "forbidden") {
		t.Errorf("%q", out)
	}
	s.until("\n")
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
	after, err := term.GetState(int(slave.Fd()))
	if err != nil || fmt.Sprint(*before) != fmt.Sprint(*after) {
		t.Errorf("the terminal is left in another mode: %v, %v", after, err)
	}
}

// Redirected output does not go through a terminal, which would change it.
func TestSandboxRunRedirectedOnATerminal(t *testing.T) {
	t.Parallel()
	r := newSandboxEnv(t)
	s := newTestTerminal(t)
	defer s.leave()
	var out bytes.Buffer
	cmd := r.command("sandbox", "run", "--", "sh", "-c", "test -t 1 || echo pipe")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.slave, &out, s.slave
	if err := cmd.Run(); err != nil || out.String() != "pipe\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	if unix.Access(r.work+"/.git", unix.F_OK) == nil {
		t.Error("a placeholder is left")
	}
}
