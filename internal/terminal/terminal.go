package terminal

import (
	"os"

	"golang.org/x/term"
)

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && f != nil && term.IsTerminal(int(f.Fd()))
}

// Size returns the size of a terminal, or zero if it is unknown.
func Size(f *os.File) (rows, cols uint16) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return uint16(height), uint16(width)
}

// MakeRaw puts a terminal into raw mode until restore is called.
func MakeRaw(f *os.File) (restore func()) {
	state, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return func() {}
	}
	return func() { term.Restore(int(f.Fd()), state) }
}
