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
)

// launchedTree is the tree of a launcher that stays. A request to end is for the
// others: the launcher ends by itself, and before them it would take them along.
type launchedTree struct {
	tree
	launcher int
}

func (t launchedTree) signal(sig syscall.Signal) { t.tree.signalBut(sig, t.launcher) }

// signalGroup signals the command's process group. The pidfd makes sure that the
// number still means it.
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

// awaitInit returns when the last process that the launcher started has ended.
// If that was left to us as an orphan, it is reaped.
func (c *child) awaitInit() {
	init := pinned{file: c.launched.Init}
	init.await(time.Now().Add(initWait))
	withDescriptor(c.launched.Init, func(fd int) error {
		return unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	})
}

// exitPatience is how long a launcher may take to end after its command has exited. It ends
// at once unless a process of the sandbox has stopped it.
const exitPatience = time.Second

// watchLeader begins to wait for the exit of the command itself. If the launcher does not end
// soon after, all that it started is killed: a process that may trace others can stop the first
// process of a sandbox, or keep the command's exit to itself. The returned function ends the
// watch when the launcher has ended; hidden is true if it was killed by the watch, and then code
// is the command's own.
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
		patience := time.NewTimer(exitPatience)
		defer patience.Stop()
		select {
		case <-ended:
		case <-patience.C:
			hidden = true
			withDescriptor(leader, func(fd int) error { code = exitCodeInTable(fd, c.launched.Pid); return nil })
			c.killLaunched()
		}
	})
	return func() (int, bool) {
		close(ended)
		leader.SetReadDeadline(time.Unix(1, 0))
		watch.Wait()
		return code, hidden
	}
}

// killLaunched kills the process with which all others end, or else each of them.
func (c *child) killLaunched() {
	if c.launched.Init != nil {
		init := pinned{file: c.launched.Init}
		if init.signal(unix.SIGKILL) == nil {
			return
		}
	}
	c.tree.kill()
}

// exitOf returns how a child ended; ok is false while it has not. wait does not see a child
// that another process traces, although it has exited. The process table does, but tells less,
// so it is asked only if wait still sees nothing once the child is known to have exited.
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

// exitCodeInTable tells how a process ended that has exited and was not reaped, also to a program
// that is not its parent, or whose wait does not see it because another process traces it. It is -1
// if the system does not say.
func exitCodeInTable(pidfd, pid int) int {
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil {
		return -1 // this needs the right that the exit code needs too, which else reads as 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || unix.PidfdSendSignal(pidfd, 0, nil, 0) != nil { // the number meant it until here
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
	status := unix.WaitStatus(number)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
