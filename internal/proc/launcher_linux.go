package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
)

// launchedTree is the tree of a launcher that stays. A signal skips the launcher:
// it ends by itself after its processes, and if it ended before them, it would kill
// them.
type launchedTree struct {
	tree
	launcher int
}

func (t launchedTree) signal(sig syscall.Signal) { t.tree.signalBut(sig, t.launcher) }

// signalGroup signals the command's process group. The pidfd makes sure that the
// number still belongs to it.
func (l *Launched) signalGroup(sig syscall.Signal) error {
	const processGroup = 4 // PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9
	err := withDescriptor(l.Leader, func(fd int) error {
		err := unix.PidfdSendSignal(fd, sig, nil, processGroup)
		if err != unix.EINVAL {
			return err
		}
		if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil {
			return err
		}
		return unix.Kill(-l.Pid, sig)
	})
	if err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal process group %d: %w", l.Pid, err)
	}
	return nil
}

// awaitInit returns when the last process that the launcher started has ended. If
// that process has become an orphan of this program or of the keeper, it is reaped, and awaitInit returns what it
// has used: it has waited for all the others, or the kernel has when it ended them.
func (c *child) awaitInit() (used *account.Figures) {
	init := pinned{file: c.launched.Init}
	init.await(time.Now().Add(initWait))
	if pid := c.kept.init(); pid != 0 {
		if _, used, ended := c.kept.keeper.Status(pid); ended {
			c.kept.keeper.Reap(pid)
			return used
		}
	}
	var rusage unix.Rusage
	withDescriptor(c.launched.Init, func(fd int) error {
		return unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, &rusage)
	})
	if rusage.Maxrss == 0 { // it was not reaped
		return nil
	}
	figures := account.OfRusage(&rusage)
	return &figures
}

// pidOf returns the number of a process in this pid namespace; 0: not known.
func pidOf(pidfd int) int {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_PID}
	if unix.IoctlPidfdInfo(pidfd, &info) == nil && info.Mask&unix.PIDFD_INFO_PID != 0 {
		return int(info.Pid)
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd)) // before Linux 6.13
	_, rest, _ := bytes.Cut(text, []byte("\nPid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

const (
	// launcherExitWait is how long a launcher may take to end after its command has exited. It
	// ends at once unless a process of the sandbox has stopped it, or the machine is very busy.
	launcherExitWait = time.Second

	// exitReportWait is how much longer it may take if only the launcher can still tell the exit
	// code of the command.
	exitReportWait = 10 * time.Second
)

// watchLeader begins to wait for the exit of the command itself. If the launcher does not end
// soon after, everything that it started is killed: a process that may trace others can stop the
// first process of a sandbox, or hide the command's exit. The returned function ends the watch
// when the launcher has ended. hidden is true if the watch has killed the launcher; then code is
// the exit code of the command.
func (c *child) watchLeader() (stop func() (code int, hidden bool)) {
	var (
		watch  sync.WaitGroup
		ended  = make(chan struct{})
		code   = -1
		hidden bool
	)
	leader := c.launched.Leader
	watch.Go(func() { // ends with stop
		conn, err := leader.SyscallConn()
		if err != nil {
			return
		}
		if conn.Read(func(fd uintptr) bool { return hasExited(int(fd)) }) != nil {
			return // stopped
		}
		if closedWithin(ended, launcherExitWait) {
			return
		}
		withDescriptor(leader, func(fd int) error {
			if code = exitCodeInTable(fd, c.launched.Pid); code < 0 {
				code = collectedExitCode(fd)
			}
			return nil
		})
		if code < 0 && closedWithin(ended, exitReportWait) {
			return
		}
		hidden = true
		c.killLaunched()
	})
	return func() (int, bool) {
		close(ended)
		leader.SetReadDeadline(time.Unix(1, 0))
		watch.Wait()
		return code, hidden
	}
}

// killLaunched kills the process whose end ends all others or, without one, each
// process.
func (c *child) killLaunched() {
	if c.launched.Init != nil {
		init := pinned{file: c.launched.Init}
		if init.signal(unix.SIGKILL) == nil {
			return
		}
	} else if c.pidfd != nil {
		launcher := pinned{c.pid, c.pidfd}
		if launcher.signal(unix.SIGKILL) == nil {
			return
		}
	}
	c.tree.kill()
}

// exitOf returns how a child ended; ok is false while it runs. wait does not see the exit of a
// child that another process traces. The process table does, but says less. So it is asked
// only if wait still sees nothing once the child is known to have exited.
func exitOf(wait func() (int, bool), exited func() bool, table func() int) (code int, ok bool) {
	if code, ok = wait(); ok || !exited() {
		return code, ok
	}
	if code, ok = wait(); ok {
		return code, true
	}
	return table(), true
}

// hasExited reports whether the process of a pidfd has exited.
func hasExited(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// exitCodeInTable returns the exit code of a process that has exited and was not reaped. It works
// for a program that is not the parent, or whose wait does not see the exit because another process
// traces the child. It is -1 if the system does not say.
func exitCodeInTable(pidfd, pid int) int {
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil {
		return -1 // reading the exit code needs this right too; without it the code reads as 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || unix.PidfdSendSignal(pidfd, 0, nil, 0) != nil { // until here the number belonged to the process
		return -1
	}
	const exitCodeField = 49 // counted from the closing parenthesis of the name
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= exitCodeField {
		return -1
	}
	number, err := strconv.Atoi(string(fields[exitCodeField]))
	if err != nil {
		return -1
	}
	return codeOf(unix.WaitStatus(number))
}

// collectedExitCode returns the exit code of a process whose parent has collected it. It is -1 if
// the system does not say, as before Linux 6.15, or if the exit was not collected.
func collectedExitCode(pidfd int) int {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if unix.IoctlPidfdInfo(pidfd, &info) != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return -1
	}
	return codeOf(unix.WaitStatus(info.Exit_code))
}

func codeOf(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
