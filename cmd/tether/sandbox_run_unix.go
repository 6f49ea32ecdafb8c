//go:build unix

package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/tetherexec/tether/internal/proc"
)

// followSize gives the terminal of p the size of ours whenever that changes,
// until the returned function is called.
func followSize(terminal *os.File, p *proc.Process) (stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	var following sync.WaitGroup
	following.Go(func() { // ends when stop closes the channel
		for range changes {
			if rows, cols := terminalSize(terminal); rows > 0 && cols > 0 {
				p.Resize(rows, cols) // fails only when there is no terminal any more
			}
		}
	})
	changes <- syscall.SIGWINCH // it may have changed since the start
	return func() {
		signal.Stop(changes)
		close(changes)
		following.Wait()
	}
}
