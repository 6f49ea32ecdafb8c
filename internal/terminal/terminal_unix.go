//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// harmlessSignals are passed on to the command and do not end tether itself.
var harmlessSignals = map[os.Signal]string{
	syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2", syscall.SIGWINCH: "SIGWINCH", syscall.SIGCONT: "SIGCONT",
}

// isSame reports whether two descriptors have the same device and inode.
func isSame(a, b *os.File) bool {
	ai, aerr := a.Stat()
	bi, berr := b.Stat()
	return aerr == nil && berr == nil && os.SameFile(ai, bi)
}

// FollowSize calls tell with the size of a terminal now and whenever it changes, until stop is
// called.
func FollowSize(terminal *os.File, tell func(rows, cols uint16)) (stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	var following sync.WaitGroup
	following.Go(func() { // ends when stop closes the channel
		for range changes {
			if rows, cols := Size(terminal); rows > 0 && cols > 0 {
				tell(rows, cols)
			}
		}
	})
	select {
	case changes <- syscall.SIGWINCH: // it may have changed since the start
	default:
	}
	return func() {
		signal.Stop(changes)
		close(changes)
		following.Wait()
	}
}
