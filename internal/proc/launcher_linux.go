package proc

import (
	"fmt"
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
