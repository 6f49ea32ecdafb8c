//go:build unix

package sandbox

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// canCreate believes a refusal only where the user could not lift it: the
// owner of a directory may change its mode, also inside a sandbox.
func canCreate(dir string) bool {
	err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	if err == nil || !errors.Is(err, unix.EACCES) {
		return !errors.Is(err, unix.EROFS)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return true
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(stat.Uid) == os.Geteuid()
}
