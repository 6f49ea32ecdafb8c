//go:build !unix

package filelock

import "os"

// Supported reports whether this system has locks.
const Supported = false

const noFollow = 0

// Try does nothing.
func Try(int, Mode) error { return nil }

// Unlock does nothing.
func Unlock(int) {}

// Hold does nothing.
func Hold(*os.File) (release func(), err error) { return func() {}, nil }
