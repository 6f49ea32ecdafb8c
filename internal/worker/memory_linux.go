package worker

import (
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns a file in memory with a content.
func memoryFile(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("tether-settings", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "settings")
	if _, err := f.Write(content); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
