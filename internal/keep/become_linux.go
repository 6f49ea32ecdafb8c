//go:build amd64 || arm64

package keep

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Become makes this process a keeper, with a worker that it has started. It returns only if that is not possible; then nothing
// has changed. The process must have no children, and signals that it has caught are lost: call it before signal.Notify.
func Become(c Config) error {
	runtime.LockOSThread() // the worker gets its death signal when this thread ends; execve ends all others
	defer runtime.UnlockOSThread()
	k := newKeeper()
	name, err := os.Executable()
	if err == nil {
		err = k.prepareFirst(c, name)
	}
	if err == nil {
		err = k.startFirst()
	}
	state := -1
	if err == nil {
		state, err = k.save()
	}
	if err == nil {
		err = execute(k.program, state, name, c.Args)
	}
	k.kill(&k.worker, NotStarted)
	if k.worker.pid != 0 {
		k.endPeer(&k.worker)
	}
	for _, fd := range []int{state, k.program, k.notice, k.bell} {
		closed(fd)
	}
	for i := range k.first {
		k.free(int32(i) + Shared)
	}
	return fmt.Errorf("become the keeper: %w", err)
}

// startFirst starts the first worker, so that it is initialized while this process becomes the keeper. It gets its order to serve
// from the keeper: until that catches signals, a SIGTERM would end the keeper without the status of a stopped server.
func (k *keeper) startFirst() error {
	k.now = now()
	if err := k.startPeer(&k.worker, k.program); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	k.started()
	return nil
}

// prepareFirst fills the state with which the keeper begins. All its descriptors are copies that survive execve.
func (k *keeper) prepareFirst(c Config, name string) (err error) {
	k.beat = int(c.Beat)
	k.json, k.hasty, k.hangup = number(c.LogJSON), number(c.Hasty), number(!c.IgnoreHangup && hasTerminal())
	if k.program, err = unix.Open("/proc/self/exe", unix.O_PATH, 0); err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	if err := k.prepareChildren(name, c.Args); err != nil {
		return err
	}
	if c.Notice != nil {
		if k.notice, err = copyOf(int(c.Notice.Fd())); err != nil {
			return fmt.Errorf("pass on the file for notices: %w", err)
		}
	}
	for _, h := range c.Held {
		fd, err := copyOf(h.FD)
		if err != nil {
			return fmt.Errorf("pass on descriptor %d of slot %d: %w", h.Which, h.Slot, err)
		}
		if !k.hold(h.Slot, h.Which, fd) {
			unix.Close(fd)
			return fmt.Errorf("slot %d is not possible", h.Slot)
		}
	}
	return nil
}

func number(flag bool) int {
	if flag {
		return 1
	}
	return 0
}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	return err == nil && closed(fd) < 0
}

// copyOf returns a copy of a descriptor that survives execve.
func copyOf(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD, firstPassed) }
