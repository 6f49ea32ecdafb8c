package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/outlog"
)

// macOS has no cgroups, pidfds or parent-death signals: a tree is a process group,
// a wait holds a thread, and the child is reaped when it exits. Not tested.

const (
	ioctlGetTermios = unix.TIOCGETA
	openDirectory   = unix.O_RDONLY
)

type host struct{}

func newHost(*Supervisor) *host { return &host{} }

func (h *host) close() {}

type processTable struct{}

func readProcessTable() processTable { return processTable{} }

// ResetInherited does nothing here: the runtime opens everything close-on-exec.
func ResetInherited() error { return nil }

type child struct {
	pid     int
	tty     bool
	stdin   *os.File // nil: none
	outputs []endpoint
	tree    tree

	kept      *kept    // always nil: there is no keeper here
	launched  Launched // always empty: launchers are not supported here
	limited   Enforced // its limits
	inherited uint64   // bytes of memory that this program had when it made the child
}

func (h *host) launch(_ context.Context, spec Spec) (_ *child, err error) {
	if spec.Launcher != nil {
		return nil, fmt.Errorf("%w: launchers", ErrUnsupported)
	}
	limited, err := decideLimits(spec.Limits, spec.BestEffort)
	if err != nil {
		return nil, err
	}
	at, err := find(spec)
	if err != nil {
		return nil, err
	}
	at.close()
	c := &child{tty: spec.TTY, limited: limited, inherited: account.OwnMemory()}
	theirs, err := c.makeDescriptors(spec)
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
		if err != nil {
			c.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	attr := &syscall.ProcAttr{
		Dir: spec.Dir,
		Env: spec.Env,
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: spec.TTY},
	}
	for _, f := range append(theirs[:3:3], spec.Files...) {
		attr.Files = append(attr.Files, f.Fd())
	}
	argv := spec.Argv
	if spec.Arg0 != nil {
		argv = append([]string{*spec.Arg0}, spec.Argv[1:]...)
	}
	if c.pid, err = syscall.ForkExec(at.program, argv, attr); err != nil {
		return nil, ExecError(err, at.program)
	}
	c.tree = processGroup(c.pid)
	return c, nil
}

// makeDescriptors makes this side's ends and returns the child's 0, 1 and 2.
func (c *child) makeDescriptors(spec Spec) (theirs []*os.File, err error) {
	if spec.TTY {
		master, slave, err := pty.Open()
		if err != nil {
			return nil, fmt.Errorf("open a terminal: %w", err)
		}
		c.stdin, c.outputs = master, []endpoint{{outlog.PTY, master}}
		size := terminalSize(spec.Rows, spec.Cols)
		err = withDescriptor(master, func(fd int) error {
			return errors.Join(unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size), unix.SetNonblock(fd, true))
		})
		return []*os.File{slave, slave, slave}, err
	}
	in, err := os.Open(os.DevNull)
	if spec.PipeStdin && err == nil {
		in.Close()
		in, c.stdin, err = os.Pipe()
	}
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, in)
	for _, stream := range spec.streams() {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		c.outputs = append(c.outputs, endpoint{stream, r})
		theirs = append(theirs, w)
		if spec.OneStream {
			theirs = append(theirs, w)
		}
	}
	return theirs, nil
}

func growPipe(uintptr, int) bool { return false }

func (c *child) wait() ending {
	var (
		status unix.WaitStatus
		used   unix.Rusage
	)
	for {
		_, err := unix.Wait4(c.pid, &status, 0, &used)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return ending{code: -1}
		}
		figures := account.OfRusage(&used)
		end := ending{code: status.ExitStatus(), used: &figures}
		if status.Signaled() {
			end.code = 128 + int(status.Signal())
		}
		return end
	}
}

// groups returns nothing: this system has no control groups.
func (c *child) groups() account.Groups { return account.Groups{} }

func (c *child) abandon() {}

func (c *child) awaitInit() *account.Figures { return nil }

func (l *Launched) signalGroup(syscall.Signal) error { return ErrUnsupported }

func (c *child) close() {
	if c.stdin != nil {
		c.stdin.Close()
	}
	for _, out := range c.outputs {
		out.file.Close()
	}
}

// processGroup is the tree on this system: the processes of one group.
type processGroup int

func (g processGroup) signal(sig syscall.Signal)           { unix.Kill(-int(g), sig) }
func (g processGroup) signalBut(sig syscall.Signal, _ int) { g.signal(sig) }
func (g processGroup) kill()                               { unix.Kill(-int(g), unix.SIGKILL) }
func (g processGroup) await(time.Time)                     {}
func (g processGroup) survivors() []Survivor               { return nil } // not known
func (g processGroup) empty() bool                         { return unix.Kill(-int(g), 0) == unix.ESRCH }
func (g processGroup) release(tableView) bool              { return g.empty() }

func (c *child) gone() bool { return false }
