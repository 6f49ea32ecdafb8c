//go:build linux

package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
)

func newSupervisor(t *testing.T, cfg Config) *Supervisor {
	t.Helper()
	s := New(cfg)
	s.needHost()
	t.Cleanup(s.Close)
	return s
}

func shell(script string) Spec {
	return Spec{Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: []string{"PATH=/bin:/usr/bin"}}
}

func start(t *testing.T, s *Supervisor, spec Spec) (*Process, *recorder) {
	t.Helper()
	sink := newRecorder(t)
	p, err := s.Start(context.Background(), spec, sink)
	if err != nil {
		t.Fatalf("start %q: %v", spec.Argv, err)
	}
	return p, sink
}

func awaitDone(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(testTimeout):
		t.Fatal("process is not done")
	}
}

// finish runs spec to its end.
func finish(t *testing.T, s *Supervisor, spec Spec) *recorder {
	t.Helper()
	p, sink := start(t, s, spec)
	awaitDone(t, p)
	return sink
}

// Output of a command comes before its exit, in whatever order goroutines are
// scheduled.
func TestOutputComesBeforeTheExit(t *testing.T) {
	s := newSupervisor(t, Config{})
	for i := range 200 {
		spec := shell("echo out; echo err >&2")
		spec.TTY = i%2 == 0
		if eventOrder := finish(t, s, spec).eventOrder(); eventOrder != "out exit close" {
			t.Fatalf("run %d, terminal %t: %s", i, spec.TTY, eventOrder)
		}
	}
}

// That is so for a slow sink too, but a full sink does not delay the exit for ever.
func TestOutputComesLate(t *testing.T) {
	for _, row := range []struct {
		name       string
		full       time.Duration
		script     string
		eventOrder string
	}{
		{"slow", testTimeout, "echo said", "out exit close"},
		{"slow failure", testTimeout, "echo said; exit 3", "out exit close"},
		{"full", time.Millisecond, "echo said", "exit out close"},
		{"full failure", time.Millisecond, "echo said; exit 3", "exit out close"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSupervisor(t, Config{})
			s.fullSink = row.full
			sink := newRecorder(t)
			unblock := sink.block()
			t.Cleanup(unblock)
			spec := shell(row.script)
			spec.LateOutput = time.Nanosecond
			p, err := s.Start(t.Context(), spec, sink)
			if err != nil {
				t.Fatal(err)
			}
			<-sink.waiting
			if row.full == testTimeout {
				deadline := time.Now().Add(testTimeout)
				for exited := false; !exited && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
					_, exited = p.Exited()
				}
				// Longer than an exit that does not wait for the sink. Too short a wait can miss a defect, but cannot report a false one.
				time.AfterFunc(20*time.Millisecond, unblock)
			} else {
				sink.awaitEvent("exit")
				unblock()
			}
			awaitDone(t, p)
			if eventOrder := sink.eventOrder(); eventOrder != row.eventOrder {
				t.Errorf("events: %s", eventOrder)
			}
		})
	}
}

func TestStreamsAreKeptApart(t *testing.T) {
	s := newSupervisor(t, Config{})
	sink := finish(t, s, shell("echo out; echo err >&2; exit 3"))
	if got := sink.text(outlog.Stdout); got != "out\n" {
		t.Errorf("stdout %q", got)
	}
	if got := sink.text(outlog.Stderr); got != "err\n" {
		t.Errorf("stderr %q", got)
	}
	if sink.code != 3 || !sink.closed {
		t.Errorf("code %d, closed %v", sink.code, sink.closed)
	}
}

func TestLargeOutputArrivesWhole(t *testing.T) {
	s := newSupervisor(t, Config{})
	const size = 3 << 20
	sink := finish(t, s, shell("head -c 3145728 /dev/zero; head -c 100000 /dev/zero >&2"))
	if n := len(sink.text(outlog.Stdout)); n != size {
		t.Errorf("stdout has %d bytes, want %d", n, size)
	}
	if n := len(sink.text(outlog.Stderr)); n != 100000 {
		t.Errorf("stderr has %d bytes", n)
	}
	if got := s.pipeBudget.Load(); got != pipeGrowthTotal {
		t.Errorf("pipe budget %d after close, want %d", got, pipeGrowthTotal)
	}
}

func TestExitCodes(t *testing.T) {
	s := newSupervisor(t, Config{})
	for _, tty := range []bool{false, true} {
		for script, want := range map[string]int{
			"exit 0":        0,
			"exit 255":      255,
			"kill -KILL $$": 137,
			"kill -TERM $$": 143,
			"kill -HUP $$":  129,
			"kill -SEGV $$": 139,
		} {
			spec := shell("ulimit -c 0; " + script)
			spec.TTY = tty
			if sink := finish(t, s, spec); sink.code != want {
				t.Errorf("tty %v, %s: code %d, want %d", tty, script, sink.code, want)
			}
		}
	}
}

func TestExitedAndPid(t *testing.T) {
	s := newSupervisor(t, Config{})
	spec := shell("echo $$; read x; exit 7")
	spec.PipeStdin = true
	p, sink := start(t, s, spec)
	sink.awaitText(outlog.Stdout, "\n")
	if _, ok := p.Exited(); ok {
		t.Error("exited while it reads")
	}
	if got := strings.TrimSpace(sink.text(outlog.Stdout)); got != itoa(p.Pid()) {
		t.Errorf("pid %s, want %d", got, p.Pid())
	}
	if err := p.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, p)
	if code, ok := p.Exited(); !ok || code != 7 {
		t.Errorf("exited %d %v", code, ok)
	}
	if time.Since(p.StartedAt()) > testTimeout {
		t.Error("started long ago")
	}
}

// withoutLibcSignals removes the two signals that C libraries use themselves: a
// program cannot change what it inherited for them.
func withoutLibcSignals(status string) string {
	return strings.NewReplacer("0000000080000000", "0000000000000000", "0000000180000000", "0000000000000000",
		"0000000100000000", "0000000000000000").Replace(status)
}

// A child starts in a session of its own, with exactly the environment and
// descriptors it was given.
func TestLaunch(t *testing.T) {
	s := newSupervisor(t, Config{})
	dir := t.TempDir()
	if dir, _ = filepath.EvalSymlinks(dir); dir == "" {
		t.Fatal("no directory")
	}
	spec := Spec{
		Argv: []string{"/bin/sh", "-c", `pwd -P; tr '\0' '\n' </proc/self/environ; ls /proc/self/fd | tr '\n' ' '
			grep -E 'Sig(Blk|Ign)' /proc/self/status; cut -d' ' -f5,6 /proc/$$/stat`},
		Dir: dir,
		Env: []string{"PATH=/bin:/usr/bin", "ONLY=this"},
	}
	p, sink := start(t, s, spec)
	awaitDone(t, p)
	got := withoutLibcSignals(sink.text(outlog.Stdout))
	pid := itoa(p.Pid())
	for _, want := range []string{
		dir + "\n",
		"ONLY=this\n",
		"0 1 2 3 ", // 3 is ls itself
		"SigBlk:\t0000000000000000",
		"SigIgn:\t0000000000000000",
		pid + " " + pid + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "HOME=") {
		t.Errorf("environment not exact:\n%s", got)
	}
}

func TestExtraFiles(t *testing.T) {
	s := newSupervisor(t, Config{})
	name := filepath.Join(t.TempDir(), "extra")
	if err := os.WriteFile(name, []byte("extra"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	spec := shell("cat <&3")
	spec.Files = []*os.File{file}
	if got := finish(t, s, spec).text(outlog.Stdout); got != "extra" {
		t.Errorf("descriptor 3 gave %q", got)
	}
}

func TestArg0(t *testing.T) {
	s := newSupervisor(t, Config{})
	arg0 := "/bin/another name"
	for _, tty := range []bool{false, true} {
		spec := shell(`tr '\0' ' ' </proc/$$/cmdline`)
		spec.Arg0, spec.TTY = &arg0, tty
		sink := finish(t, s, spec)
		got := sink.text(outlog.Stdout) + sink.text(outlog.PTY)
		if !strings.HasPrefix(got, arg0+" -c") {
			t.Errorf("tty %v: command line %q", tty, got)
		}
	}
}

func TestProgramLookup(t *testing.T) {
	s := newSupervisor(t, Config{})
	dir := t.TempDir()
	sub := filepath.Join(dir, "bin")
	other := filepath.Join(dir, "other")
	for _, d := range []string{sub, other, filepath.Join(other, "tool")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := "#!/bin/sh\necho found\n"
	if err := os.WriteFile(filepath.Join(sub, "tool"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]Spec{
		"absolute":           {Argv: []string{filepath.Join(sub, "tool")}},
		"relative to Dir":    {Argv: []string{"bin/tool"}},
		"PATH of the child":  {Argv: []string{"tool"}, Env: []string{"PATH=/nowhere:" + other + ":" + sub}},
		"relative PATH":      {Argv: []string{"tool"}, Env: []string{"PATH=bin"}},
		"empty PATH element": {Argv: []string{"tool"}, Env: []string{"PATH=/nowhere:"}, Dir: sub},
		"default PATH":       {Argv: []string{"sh", "-c", "echo found"}},
	} {
		if spec.Dir == "" {
			spec.Dir = dir
		}
		for _, tty := range []bool{false, true} {
			spec.TTY = tty
			sink := finish(t, s, spec)
			if got := sink.text(outlog.Stdout) + sink.text(outlog.PTY); !strings.HasPrefix(got, "found") {
				t.Errorf("%s, tty %v: %q", name, tty, got)
			}
		}
	}
}

func TestStartErrors(t *testing.T) {
	s := newSupervisor(t, Config{})
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	plain := file("plain", "x", 0o644)
	garbage := file("garbage", "\x00\x01", 0o755)
	orphan := file("orphan", "#!/no/such/interpreter\n", 0o755)
	nul := "a\x00b"
	huge := strings.Repeat("x", 3<<20)

	for _, c := range []struct {
		name  string
		spec  Spec
		begin string
		also  string
		is    error
	}{
		{"missing program", Spec{Argv: []string{"/no/such"}}, "No such file or directory (os error 2)", `program "/no/such"`, syscall.ENOENT},
		{"missing in PATH", Spec{Argv: []string{"no-such"}, Env: []string{"PATH=/bin"}}, "No such file or directory (os error 2)", `"/bin"`, syscall.ENOENT},
		{"missing directory", Spec{Argv: []string{"/bin/true"}, Dir: dir + "/none"}, "No such file or directory (os error 2)", "working directory", syscall.ENOENT},
		{"file as directory", Spec{Argv: []string{"/bin/true"}, Dir: plain}, "Not a directory (os error 20)", "working directory", syscall.ENOTDIR},
		{"directory as program", Spec{Argv: []string{dir}}, "Permission denied (os error 13)", "program", syscall.EACCES},
		{"not executable", Spec{Argv: []string{plain}}, "Permission denied (os error 13)", "program", syscall.EACCES},
		{"not a program", Spec{Argv: []string{garbage}}, "Exec format error (os error 8)", "program", syscall.ENOEXEC},
		{"no interpreter", Spec{Argv: []string{orphan}}, "No such file or directory (os error 2)", "interpreter", syscall.ENOENT},
		{"too long", Spec{Argv: []string{"/bin/true", huge}}, "Argument list too long (os error 7)", "", syscall.E2BIG},
		{"empty name", Spec{Argv: []string{""}}, "missing program for pipe spawn", "", ErrNoProgram},
		{"empty name on a terminal", Spec{Argv: []string{""}, TTY: true}, "missing program for PTY spawn", "", ErrNoProgramPTY},
		{"nothing", Spec{}, "missing program for pipe spawn", "", ErrNoProgram},
		{"nul in argument", Spec{Argv: []string{"/bin/true", nul}}, "nul byte found in provided data", "", ErrNulArgument},
		{"nul in arg0", Spec{Argv: []string{"/bin/true"}, Arg0: &nul}, "nul byte found in provided data", "", ErrNulArgument},
		{"nul in directory", Spec{Argv: []string{"/bin/true"}, Dir: nul}, "nul byte found in provided data", "", ErrNulArgument},
		{"nul in environment", Spec{Argv: []string{"/bin/true"}, Env: []string{"A=" + nul}}, "data provided contains a nul byte", "", ErrNulEnvironment},
	} {
		if c.spec.Dir == "" {
			c.spec.Dir = dir
		}
		for _, tty := range []bool{c.spec.TTY, true} {
			if c.is == ErrNoProgram && tty {
				continue
			}
			c.spec.TTY = tty
			_, err := s.Start(context.Background(), c.spec, newRecorder(t))
			if err == nil {
				t.Errorf("%s: started", c.name)
				continue
			}
			if !strings.HasPrefix(err.Error(), c.begin) || !strings.Contains(err.Error(), c.also) {
				t.Errorf("%s: %q", c.name, err)
			}
			if !errors.Is(err, c.is) {
				t.Errorf("%s: %v is not %v", c.name, err, c.is)
			}
		}
	}
}

func TestStartIsRefusedWhenTooLate(t *testing.T) {
	s := New(Config{})
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("changed my mind")
	cancel(reason)
	if _, err := s.Start(ctx, shell("true"), newRecorder(t)); err != nil && !errors.Is(err, reason) {
		t.Errorf("cancelled start: %v", err)
	}
	s.Close()
	if _, err := s.Start(context.Background(), shell("true"), newRecorder(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("start after close: %v", err)
	}
}

func TestTerminal(t *testing.T) {
	s := newSupervisor(t, Config{})
	spec := shell(`trap 'stty size; exit 4' WINCH; test -t 0 && test -t 1 && test -t 2 && stty size && stty -a && tty
		echo ready; while :; do sleep 0.02; done`) // a shell handles a signal only after a read that has begun
	spec.TTY = true
	p, sink := start(t, s, spec)
	sink.awaitText(outlog.PTY, "ready")
	for _, want := range []string{"24 80\r\n", "icanon", " echo ", "isig", "icrnl", "onlcr", "-iutf8", "/dev/pts/"} {
		if got := sink.text(outlog.PTY); !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if err := p.Resize(50, 132); err != nil {
		t.Fatal(err)
	}
	if rows, cols, ok := p.Size(); rows != 50 || cols != 132 || !ok {
		t.Errorf("size %d %d %t", rows, cols, ok)
	}
	sink.awaitText(outlog.PTY, "50 132")
	awaitDone(t, p)
	if sink.code != 4 {
		t.Errorf("code %d", sink.code)
	}
	if err := p.Resize(1, 1); err != nil {
		t.Errorf("resize after close: %v", err)
	}
	if rows, cols, ok := p.Size(); rows != 50 || cols != 132 || !ok {
		t.Errorf("size after close: %d %d %t", rows, cols, ok)
	}
	unseen := shell("stty rows 7 cols 99")
	unseen.TTY = true
	p, _ = start(t, s, unseen)
	awaitDone(t, p)
	if rows, cols, ok := p.Size(); rows != 7 || cols != 99 || !ok {
		t.Errorf("size after close, if it was never asked for: %d %d %t", rows, cols, ok)
	}
	p, _ = start(t, s, shell("true"))
	if _, _, ok := p.Size(); ok {
		t.Error("pipes have a size")
	}
	if err := p.Resize(1, 1); !errors.Is(err, ErrNotTTY) {
		t.Errorf("resize without terminal: %v", err)
	}
}

func TestTerminalInput(t *testing.T) {
	s := newSupervisor(t, Config{})
	p, sink := start(t, s, Spec{Argv: []string{"cat"}, Dir: "/", TTY: true, Rows: 10, Cols: 20})
	write(t, p, "hello\n", nil)
	sink.awaitText(outlog.PTY, "hello\r\nhello\r\n") // the echo of the terminal and the output of cat
	if err := p.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, p)
	if sink.code != 0 {
		t.Errorf("code %d after end of file", sink.code)
	}
	write(t, p, "more", ErrStdinClosed)
}

func TestTerminalInterrupt(t *testing.T) {
	s := newSupervisor(t, Config{})
	spec := shell("echo ready; exec sleep 1000")
	spec.TTY = true
	p, sink := start(t, s, spec)
	sink.awaitText(outlog.PTY, "ready")
	write(t, p, "\x03", nil)
	awaitDone(t, p)
	if sink.code != 130 {
		t.Errorf("code %d", sink.code)
	}
}

func TestRawTerminalHasNoEOF(t *testing.T) {
	s := newSupervisor(t, Config{})
	spec := shell("stty raw; echo ready; exec sleep 1000")
	spec.TTY = true
	p, sink := start(t, s, spec)
	sink.awaitText(outlog.PTY, "ready")
	if err := p.CloseStdin(); !errors.Is(err, ErrNoEOF) {
		t.Errorf("end of file in raw mode: %v", err)
	}
}

func TestSignalReachesTheGroup(t *testing.T) {
	s := newSupervisor(t, Config{})
	p, sink := start(t, s, shell(`trap 'wait; echo outer; exit 5' USR1
		sh -c 'trap "echo inner; exit" USR1; echo ready; while :; do sleep 0.05; done' & wait`))
	sink.awaitText(outlog.Stdout, "ready")
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, p)
	if got := sink.text(outlog.Stdout); got != "ready\ninner\nouter\n" || sink.code != 5 {
		t.Errorf("output %q, code %d", got, sink.code)
	}
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Errorf("signal after exit: %v", err)
	}
}
