//go:build amd64 || arm64

package keep

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// A Beginning is a program that is about to become a keeper.
type Beginning struct {
	keeper *keeper
	caught chan struct{} // closed when signals are caught
	err    error         // why they are not; read after caught
}

// Begin prepares this process to become a keeper: its signals wait for that. It must be called on the main thread, by a
// process without children that has not called signal.Notify.
func Begin() (*Beginning, error) {
	if unix.Gettid() != unix.Getpid() {
		return nil, errors.New("only the main thread can become the keeper")
	}
	if err := Probe(); err != nil {
		return nil, err
	}
	b := &Beginning{keeper: newKeeper(), caught: make(chan struct{})}
	go func() { // ends soon; Become and Cancel wait for it
		defer close(b.caught)
		b.err = b.keeper.catchSignals()
	}()
	return b, nil
}

// Cancel lets this process go on without a keeper. A signal that has arrived meanwhile has its usual effect.
func (b *Beginning) Cancel() {
	if <-b.caught; b.err != nil {
		return
	}
	k := b.keeper
	k.unwatch()
	n, _ := unix.Read(k.signals, k.text[:turn])
	for _, number := range k.text[:max(n, 0)] {
		if sig := unix.Signal(number); sig != unix.SIGCHLD {
			unix.Kill(unix.Getpid(), sig)
		}
	}
	closed(k.signals)
	closed(k.signalled)
}

// Become makes this process the keeper. It returns only if that is not possible, and then the caller calls Cancel when it has cleaned up; otherwise
// the process ends with the server.
func (b *Beginning) Become(c Config) error {
	k := b.keeper
	name, err := os.Executable()
	if err == nil {
		err = k.prepareFirst(c, name)
	}
	<-b.caught
	if err = errors.Join(err, b.err); err == nil {
		err = c.Announce()
	}
	if k.now = now(); err == nil {
		err = k.startPeer(&k.worker, k.program)
	}
	if err == nil {
		debug.SetGCPercent(-1) // as in keeperMain
		k.started()
		status := k.run()
		if k.served == 0 {
			c.Abandon()
		}
		os.Exit(status)
	}
	for _, fd := range []int{k.program, k.notice, k.bell} {
		closed(fd)
	}
	for i := range k.first {
		k.free(int32(i) + Shared)
	}
	return fmt.Errorf("become the keeper: %w", err)
}

// prepareFirst fills the state with which the keeper begins. All its descriptors are copies that survive execve.
func (k *keeper) prepareFirst(c Config, name string) (err error) {
	k.beat = int(c.Beat)
	k.json, k.hasty, k.hangup = number(c.LogJSON), number(c.Hasty), number(!ignoredAtStart[unix.SIGHUP] && hasTerminal())
	k.purges = number(c.KillOrphans)
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
