//go:build unix

package copy

import (
	"io/fs"
	"syscall"
)

// Umask has the permissions that new files of this process do not get. The system can only
// tell it by changing it: nothing else may make a file meanwhile.
func Umask() fs.FileMode {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return fs.FileMode(mask).Perm()
}
