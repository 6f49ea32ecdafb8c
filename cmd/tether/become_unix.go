//go:build unix

package main

import (
	"os"
	"syscall"
)

// become replaces this program by another one, in the same process. It returns only if that fails.
func become(path string, args []string) error {
	return syscall.Exec(path, append([]string{path}, args...), os.Environ())
}
