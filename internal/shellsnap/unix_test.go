//go:build unix

package shellsnap

import (
	"strconv"
	"syscall"
)

func makeFifo(path string) error { return syscall.Mkfifo(path, 0o600) }

// exists checks whether a process exists.
func exists(pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	return syscall.Kill(n, 0)
}
