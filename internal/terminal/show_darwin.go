package terminal

import "golang.org/x/sys/unix"

// The requests of OnlyShow. setState waits until all output is printed, and drops the input that has arrived.
const (
	getState = unix.TIOCGETA
	setState = unix.TIOCSETAF
)
