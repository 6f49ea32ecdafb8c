//go:build unix

package main

import (
	"os"
	"syscall"
)

// tryLock takes a file for this process, unless another has it.
func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
