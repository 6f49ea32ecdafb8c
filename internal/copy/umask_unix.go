//go:build unix

package copy

import (
	"io/fs"
	"syscall"
)

// Umask returns the permissions that new files of this process do not get. It can only be read by
// changing it, so no other goroutine may make a file meanwhile.
func Umask() fs.FileMode {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return fs.FileMode(mask).Perm()
}
