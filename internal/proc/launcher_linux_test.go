package proc

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// launched makes a spec whose command is run by a shell script.
func launched(t *testing.T, script string, confirm func(context.Context) (Launched, error)) (Spec, *os.File) {
	t.Helper()
	said, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { said.Close(); stderr.Close() })
	if confirm == nil {
		confirm = func(context.Context) (Launched, error) { return Launched{}, nil }
	}
	spec := shell("never run")
	spec.Launcher = &Launcher{
		Argv: []string{"/bin/sh", "-c", script}, Env: []string{"LAUNCHER=1", "PATH=/bin:/usr/bin"},
		Stderr: stderr, Confirm: func(ctx context.Context, _ func(Launched, []*os.File) error) (Launched, error) { return confirm(ctx) },
	}
	return spec, said
}

// leaderOf confirms a launch when the command has written its number to w and closed it.
func leaderOf(r, w *os.File) func(context.Context) (Launched, error) {
	return func(context.Context) (Launched, error) {
		w.Close()
		text, err := io.ReadAll(r)
		if err != nil {
			return Launched{}, err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return Launched{}, err
		}
		fd, err := unix.PidfdOpen(pid, unix.O_NONBLOCK)
		return Launched{Pid: pid, Leader: os.NewFile(uintptr(fd), "pidfd")}, err
	}
}

func TestLauncherGetsItsDescriptors(t *testing.T) {
	s := newSupervisor(t, Config{})
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	file.WriteString("passed on")
	file.Seek(0, io.SeekStart)
	spec, said := launched(t, `echo launcher >&2; read line <&3; echo "$line" >&4; echo err >&5; cat <&6 >&4; echo $LAUNCHER $PWD >&4; cat`, nil)
	spec.PipeStdin, spec.Files = true, []*os.File{file}
	p, sink := start(t, s, spec)
	p.Write([]byte("typed\n"), func(error) {})
	p.CloseStdin()
	awaitDone(t, p)
	if got, want := sink.text(outlog.Stdout), "typed\npassed on1 /\n"; got != want {
		t.Errorf("stdout of the command is %q, want %q", got, want)
	}
	if got := sink.text(outlog.Stderr); got != "err\n" {
		t.Errorf("stderr of the command is %q", got)
	}
	line := make([]byte, 100)
	n, _ := said.Read(line)
	if string(line[:n]) != "launcher\n" {
		t.Errorf("the launcher printed %q", line[:n])
	}
}

func TestLauncherThatFailsLeavesNothing(t *testing.T) {
	s := newSupervisor(t, Config{})
	ended := 0
	spec, _ := launched(t, "echo output >&4; sleep 1000 & wait", func(context.Context) (Launched, error) {
		return Launched{}, errors.New("no sandbox")
	})
	spec.Launcher.Ended = func() { ended++ }
	sink := newRecorder(t)
	if _, err := s.Start(t.Context(), spec, sink); err == nil || err.Error() != "no sandbox" {
		t.Fatalf("started: %v", err)
	}
	if ended != 1 {
		t.Errorf("Ended was called %d times", ended)
	}
	if len(sink.events) > 0 {
		t.Errorf("the sink got %v", sink.events)
	}
	if left := s.Processes(); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
}

// If a start is cancelled, its hanging launcher is killed.
func TestCancelledStartKillsTheLauncher(t *testing.T) {
	s := newSupervisor(t, Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	spec, _ := launched(t, "sleep 1000", func(ctx context.Context) (Launched, error) {
		cancel(errors.New("enough"))
		<-ctx.Done()
		return Launched{}, context.Cause(ctx)
	})
	if _, err := s.Start(ctx, spec, newRecorder(t)); err == nil || err.Error() != "enough" {
		t.Fatalf("started: %v", err)
	}
}

// The command has a session of its own, and signals reach it and not the launcher.
func TestLauncherThatStays(t *testing.T) {
	for _, cfg := range []Config{{}, {NoCgroups: true}} {
		t.Run("cgroups="+strconv.FormatBool(!cfg.NoCgroups), func(t *testing.T) {
			for _, end := range []struct {
				name string
				do   func(*Process)
				want string
			}{
				{"terminate", func(p *Process) { p.Terminate() }, "term\n"},
				{"signal", func(p *Process) { p.Signal(syscall.SIGUSR1) }, "usr1\n"},
			} {
				t.Run(end.name, func(t *testing.T) { testLauncherThatStays(t, cfg, end.do, end.want) })
			}
		})
	}
}

func testLauncherThatStays(t *testing.T, cfg Config, end func(*Process), want string) {
	s := newSupervisor(t, cfg)
	s.grace = time.Hour // so that the command ends by itself, however busy the machine
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const command = `trap "echo term; exit 5" TERM; trap "echo usr1; exit 5" USR1; echo $$ >&6; exec 6>&-; while :; do sleep 0.01; done`
	spec, said := launched(t, `trap "echo launcher signalled >&2" TERM USR1; export C='`+command+`'; setsid sh -c "$C" <&3 >&4 2>&5 & exec 6>&-; wait $!`, leaderOf(r, w))
	spec.Files, spec.Launcher.Stays = []*os.File{w}, true
	p, sink := start(t, s, spec)
	end(p)
	awaitDone(t, p)
	if got := sink.text(outlog.Stdout); got != want || sink.code != 5 {
		t.Errorf("the command printed %q and ended with %d, want %q and 5", got, sink.code, want)
	}
	spec.Launcher.Stderr.Close()
	if text, _ := io.ReadAll(said); len(text) > 0 {
		t.Errorf("the launcher printed %q", text)
	}
}

// A launcher that is slow to end, on a busy machine, still reports the exit code of its command.
func TestSlowLauncherReportsTheExitCode(t *testing.T) {
	t.Parallel()
	s := newSupervisor(t, Config{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// The launcher takes longer than launcherExitWait. The command runs until it is known.
	spec, _ := launched(t, `setsid sh -c 'echo $$ >&6; exec 6>&-; read line; exit 5' <&3 & exec 6>&-; wait $!; code=$?; sleep 2; exit $code`, leaderOf(r, w))
	spec.PipeStdin = true
	spec.Files, spec.Launcher.Stays = []*os.File{w}, true
	p, sink := start(t, s, spec)
	p.CloseStdin()
	awaitDone(t, p)
	if sink.code != 5 {
		t.Errorf("ended with %d, want 5", sink.code)
	}
}

// A pidfd tells the exit code of a process after its parent has collected it, since Linux 6.15.
func TestCollectedExitCode(t *testing.T) {
	t.Parallel()
	command := exec.Command("sh", "-c", "read line; exit 5")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(command.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if code := collectedExitCode(fd); code != -1 {
		t.Errorf("code of a process that runs is %d, want -1", code)
	}
	input.Close()
	command.Wait()
	if code := collectedExitCode(fd); code == -1 {
		t.Skip("the kernel does not say")
	} else if code != 5 {
		t.Errorf("code is %d, want 5", code)
	}
}

// The exit is reported when the last process has ended.
func TestLauncherIsOverWithItsInit(t *testing.T) {
	s := newSupervisor(t, Config{})
	init := exec.Command("sleep", "1000")
	if err := init.Start(); err != nil {
		t.Fatal(err)
	}
	defer init.Wait()
	defer init.Process.Kill()
	fd, err := unix.PidfdOpen(init.Process.Pid, unix.O_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := launched(t, "exit 3", func(context.Context) (Launched, error) {
		return Launched{Init: os.NewFile(uintptr(fd), "pidfd")}, nil
	})
	order := make(chan string, 3)
	spec.Launcher.Ended = func() { order <- "ended" }
	sink := newRecorder(t)
	p, err := s.Start(t.Context(), spec, exitOrder{sink, order})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(testTimeout); ; { // the launcher itself has ended
		if _, exited := p.Exited(); exited || time.Now().After(deadline) {
			break
		}
		runtime.Gosched()
	}
	order <- "killed"
	init.Process.Kill()
	awaitDone(t, p)
	if got := <-order + " " + <-order + " " + <-order; got != "killed ended exit" {
		t.Errorf("order was %s", got)
	}
}

type exitOrder struct {
	*recorder
	order chan<- string
}

func (e exitOrder) Exit(code int) {
	e.order <- "exit"
	e.recorder.Exit(code)
}

func TestLauncherMounts(t *testing.T) {
	rows := []struct {
		name   string
		mounts Mounts
	}{{"as user", PrivateAsUser}}
	if os.Geteuid() == 0 {
		rows = append(rows, struct {
			name   string
			mounts Mounts
		}{"as root", PrivateMounts})
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			spec, said := launched(t, `readlink /proc/self/ns/mnt >&4; id -u >&4; grep -E -c "shared:|master:" /proc/self/mountinfo >&4`, nil)
			spec.Launcher.Mounts = row.mounts
			p, sink := start(t, newSupervisor(t, Config{}), spec)
			awaitDone(t, p)
			spec.Launcher.Stderr.Close()
			text, _ := io.ReadAll(said)
			lines := strings.Fields(sink.text(outlog.Stdout))
			if len(lines) != 3 || lines[0] == ours || lines[1] != strconv.Itoa(os.Geteuid()) || lines[2] != "0" {
				t.Errorf("the launcher found namespace %s (ours is %s), user and shared mounts: %q %s", lines, ours, lines, text)
			}
		})
	}
}

// A failure is reported after the output has ended, if that does not take too long.
// A success does not wait.
func TestLateOutput(t *testing.T) {
	s := newSupervisor(t, Config{})
	for _, row := range []struct {
		name, script string
		late         time.Duration
		first        string
	}{
		{"failure waits", `(sleep 0.1; echo late) & exit 3`, testTimeout, "out"},
		{"success does not", `(while ! [ -e $PIPE ]; do :; done; echo late) & exit 0`, testTimeout, "exit"},
		{"not for ever", `(while ! [ -e $PIPE ]; do :; done; echo late) & exit 3`, time.Millisecond, "exit"},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := shell(row.script)
			gate := t.TempDir() + "/gate"
			spec.Env, spec.LateOutput = append(spec.Env, "PIPE="+gate), row.late
			p, sink := start(t, s, spec)
			if row.first == "exit" {
				sink.awaitEvent("exit")
				os.WriteFile(gate, nil, 0o600)
			}
			awaitDone(t, p)
			if sink.events[0] != row.first {
				t.Errorf("the sink got %v", sink.events)
			}
		})
	}
}

// Cgroups of cancelled starts are reused.
func TestCancelledStartsGiveTheirCgroupsBack(t *testing.T) {
	s := newSupervisor(t, Config{})
	groups := s.host.cgroups
	if groups == nil {
		t.Skip("no writable cgroup file system of version 2 here")
	}
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%30)*100*time.Microsecond)
		if p, err := s.Start(ctx, shell("true"), newRecorder(t)); err == nil {
			p.Kill()
		}
		cancel()
	}
	var made []string
	var free int
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) { // the late ones are discarded meanwhile
		made, _ = filepath.Glob(groups.parent.path + "/[0-9]*")
		groups.mu.Lock()
		free = len(groups.free)
		groups.mu.Unlock()
		if len(made) == free {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there are %d cgroups and no process, and %d are free", len(made), free)
		}
	}
}

// The error of a cancelled start does not blame the launcher.
func TestCancelledStartDoesNotBlameTheLauncher(t *testing.T) {
	s := newSupervisor(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		spec, _ := launched(t, "sleep 1000", func(ctx context.Context) (Launched, error) {
			<-ctx.Done()
			return Launched{}, context.Cause(ctx)
		})
		_, err := s.Start(ctx, spec, newRecorder(t))
		if _, blamed := errors.AsType[*LaunchError](err); blamed || !errors.Is(err, context.Canceled) {
			t.Fatalf("started: %v", err)
		}
	}
}

// If a launcher does not notice the exit of its command, it is killed, and the exit code is that
// of the command.
func TestLauncherThatMissesTheExit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, end string
		code      int
	}{
		{"exit", "exit 7", 7},
		{"signal", "kill -TERM $$; sleep 1000", 143},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newSupervisor(t, Config{NoCgroups: true})
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			// The command waits until a pidfd was opened for it. sleep never collects its exit.
			spec, _ := launched(t, `setsid sh -c 'echo $$ >&6; exec 6>&-; read line; `+row.end+`' <&3 & exec 6>&-; exec sleep 1000`, leaderOf(r, w))
			spec.Files, spec.Launcher.Stays, spec.PipeStdin = []*os.File{w}, true, true
			p, sink := start(t, s, spec)
			p.Write([]byte("\n"), func(error) {})
			awaitDone(t, p)
			if sink.code != row.code {
				t.Errorf("exit code %d, want %d", sink.code, row.code)
			}
		})
	}
}

func init() {
	helpers["tracer"] = func() {
		runtime.LockOSThread() // a tracer is a thread
		if err := unix.PtraceSeize(unix.Getppid()); err != nil {
			os.Stdout.WriteString("not allowed\n")
			os.Exit(1)
		}
		os.Stdout.WriteString("traced\n")
		for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
			f.Close()
		}
		for { // until it is killed
			unix.Pause()
		}
	}
}

// A child may exit after wait was called and before the check whether it has exited. Then
// the exit is taken from a second wait.
func TestExitBetweenWaitAndCheck(t *testing.T) {
	t.Parallel()
	never := func() int { t.Error("the process table was asked"); return -1 }
	waits := 0
	late := func() (int, bool) { waits++; return 7, waits > 1 }
	if code, ok := exitOf(late, func() bool { return true }, never); code != 7 || !ok {
		t.Errorf("exit %d, %v", code, ok)
	}
	running := func() (int, bool) { return -1, false }
	if _, ok := exitOf(running, func() bool { return false }, never); ok {
		t.Error("a child that runs has ended")
	}
	if code, ok := exitOf(running, func() bool { return true }, func() int { return 8 }); code != 8 || !ok {
		t.Errorf("exit of a traced child %d, %v", code, ok)
	}
}

// The exit of a command that another process traces is reported, although the kernel reports it
// only to the tracer. The command is reaped when the tracer has ended.
func TestTracerDoesNotHideTheExit(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		spec := shell(helperVariable + `=tracer "$EXE" & read line; exit 7`)
		spec.Env, spec.PipeStdin = append(spec.Env, "EXE="+exe), true
		p, sink := start(t, s, spec)
		sink.await("the tracer", func() bool { return strings.Contains(sink.text(outlog.Stdout), "\n") })
		if text := sink.text(outlog.Stdout); text != "traced\n" {
			p.Kill()
			need.CannotRun(t, "tracing is %s here", text)
		}
		p.Write([]byte("\n"), func(error) {})
		awaitDone(t, p)
		if sink.code != 7 {
			t.Errorf("exit code %d", sink.code)
		}
		if !p.Leftovers() {
			t.Error("nothing is left, but the tracer runs")
		}
		p.Kill()
		if p.Leftovers() {
			t.Error("something is left after Kill")
		}
	})
}
