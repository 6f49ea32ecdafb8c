//go:build linux || darwin

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// OnlyShow makes a terminal show only what programs print, until restore is called: keys are not echoed, nor are the answers of the
// terminal to control sequences. What has arrived by then is dropped. Keys for signals work.
func OnlyShow(f *os.File) (restore func()) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), getState)
	if err != nil {
		return func() {}
	}
	state := *before
	state.Lflag &^= unix.ECHO | unix.ICANON
	state.Cc[unix.VMIN], state.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(int(f.Fd()), setState, &state) != nil {
		return func() {}
	}
	return func() { unix.IoctlSetTermios(int(f.Fd()), setState, before) }
}
