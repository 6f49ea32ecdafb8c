//go:build amd64 || arm64

package keep

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/fork/nofile"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/service"
)

// checkArgument in place of a descriptor makes a keeper check that it understands the state in descriptor firstPassed,
// and end.
const checkArgument = "check"

// A command is the command line of a keeper, and what its children need.
type command struct {
	spawner
	name          string   // of the program's file
	args          []string // of the worker
	worker, check []*byte  // command lines, as execve takes them
}

func init() { reexec.Register(reexec.Keeper, keeperMain) }

// keeperMain is the keeper. Its first argument is the descriptor of the state; the others are arguments of the worker. It
// runs while the program is initialized, on the main thread: a child gets its death signal when the thread that has started
// it ends.
func keeperMain(args []string) int {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	k := newKeeper()
	if err := k.begin(args); err != nil {
		fmt.Fprintf(os.Stderr, "tether: keeper: %v\n", err)
		return 1
	}
	if args[0] == checkArgument {
		return 0
	}
	return k.run()
}

func newKeeper() *keeper {
	return &keeper{
		worker: noPeer, spare: noPeer, check: noPeer,
		handles: handles{program: -1, previous: -1, candidate: -1, notice: -1, bell: -1, signals: -1, signalled: -1},
		ending:  ending{status: -1},
	}
}

// begin takes over a state: of the program that became the keeper, or of the keeper before its replacement.
func (k *keeper) begin(args []string) error {
	if len(args) == 0 || unix.Gettid() != unix.Getpid() {
		return errors.New("this helper is started by tether itself")
	}
	if args[0] == checkArgument {
		return k.load(firstPassed)
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("descriptor of the state: %w", err)
	}
	if err := k.load(fd); err != nil {
		return err
	}
	unix.Close(fd)
	if err := k.prepare(args[1:]); err != nil {
		return err
	}
	if k.now = now(); k.worker.ready != 0 {
		k.due[dueRest], k.due[dueEnded] = k.now+serviceTime, k.now // SIGCHLD may be lost meanwhile
		k.tell(&k.worker, msgVerdict, int(msgRenew), int(Done), 0)
	}
	return nil
}

// prepare makes what the keeper needs besides its state.
func (k *keeper) prepare(args []string) (err error) {
	name := [16]byte{'t', 'e', 't', 'h', 'e', 'r'} // instead of the number of a descriptor
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0)
	if err := k.catchSignals(); err != nil {
		return err
	}
	return k.prepareChildren(os.Args[0], args)
}

// catchSignals lets signals wait until the keeper handles them.
func (k *keeper) catchSignals() error {
	if k.signals < 0 {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_NONBLOCK); err != nil {
			return fmt.Errorf("make a pipe: %w", err)
		}
		k.signals, k.signalled = ends[0], ends[1]
	}
	k.watchSignals()
	return nil
}

// prepareChildren makes what the keeper needs to start workers: programs with this name and these arguments.
func (k *keeper) prepareChildren(name string, args []string) (err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	if k.bell < 0 {
		if k.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK); err != nil {
			return fmt.Errorf("make an eventfd: %w", err)
		}
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("read the limit of descriptors: %w", err)
	}
	if k.manager = service.Find(); k.manager.Interval() > 0 {
		k.due[dueAlive] = now() + int(k.manager.Interval())
	}
	k.limit = max(0, int(min(files.Cur, maxSlot))-reserved)
	c := &k.command
	c.name, c.args, c.owner, c.files = name, args, int32(unix.Getpid()), asStarted(files)
	env, err := syscall.SlicePtrFromStrings(os.Environ())
	if err != nil {
		return fmt.Errorf("pass on the environment: %w", err)
	}
	c.env = &env[0]
	if c.worker, err = syscall.SlicePtrFromStrings(reexec.Argv(c.name, reexec.Worker, args...)); err != nil {
		return fmt.Errorf("pass on the arguments: %w", err)
	}
	c.check, err = syscall.SlicePtrFromStrings(reexec.Argv(c.name, reexec.Keeper, checkArgument))
	return err
}

// watchSignals lets the signals of the keeper arrive in its pipe, as bytes. The Go runtime blocks no signal that would end
// a program, so a signalfd would not see them. A signal that ends the keeper before this has the effect that it should
// have: the worker gets SIGTERM.
func (k *keeper) watchSignals() {
	caught, done := make(chan os.Signal, 16), make(chan struct{})
	watched := []os.Signal{unix.SIGTERM, unix.SIGCHLD}
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTSTP} {
		if !ignoredAtStart[sig] {
			watched = append(watched, sig)
		}
	}
	if ignoredAtStart[unix.SIGINT] { // then SIGQUIT was, too, but the Go runtime has changed that
		signal.Notify(make(chan os.Signal, 1), unix.SIGQUIT) // no goroutine reads it, and Notify does not block
	}
	// SIGHUP comes last: until now it was ignored, so once it is caught, all are.
	signal.Notify(caught, append(watched, unix.SIGHUP)...)
	go func() { // ends with unwatch
		defer close(done)
		for sig := range caught {
			number, _ := sig.(syscall.Signal)
			unix.Write(k.signalled, []byte{byte(number)})
		}
	}()
	k.unwatch = func() { // all signals that were caught are in the pipe then
		signal.Stop(caught)
		close(caught)
		<-done
	}
}

// replace executes the worker's program in place of this one: process, children and descriptors stay. It returns only
// if that fails, and then nothing has changed.
func (k *keeper) replace() (errno int) {
	fd, err := k.save()
	if err != nil {
		return errnoOf(err)
	}
	signal.Ignore(unix.SIGHUP) // before it is no longer caught
	for sig := range ignoredAtStart {
		signal.Ignore(sig) // the next program finds it as this one did; children of a keeper do not inherit it
	}
	k.unwatch()
	err = execute(k.program, fd, k.command.name, k.command.args)
	unix.Close(fd)
	k.watchSignals()
	return errnoOf(err)
}

// execute executes a program as the keeper with the state behind a descriptor. It returns only if that fails.
func execute(program, state int, name string, args []string) error {
	signal.Ignore(unix.SIGHUP) // it would end the new program before that is ready
	var files unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	lowered := asStarted(files)
	unix.Setrlimit(unix.RLIMIT_NOFILE, &lowered)
	argv := append(reexec.Argv(name, reexec.Keeper, strconv.Itoa(state)), args...)
	err := syscall.Exec("/proc/self/fd/"+strconv.Itoa(program), argv, os.Environ())
	unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
	signal.Reset(unix.SIGHUP)
	return err
}

// asStarted returns the limit of descriptors with the soft limit that this program was started with. The Go runtime has
// raised it.
func asStarted(files unix.Rlimit) unix.Rlimit {
	if nofile.Soft != 0 {
		files.Cur = nofile.Soft
	}
	return files
}
