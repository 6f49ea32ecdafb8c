package outlog

import (
	"os"
	"syscall"
)

// freeDisk is the space that is available to unprivileged users in dir's file
// system.
func freeDisk(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

const (
	keepSize = 0x1 // FALLOC_FL_KEEP_SIZE
	punch    = 0x2 // FALLOC_FL_PUNCH_HOLE
)

// punchHole gives disk space back. If the file system cannot do that, the space
// stays with the file until the block is used again or the log ends.
func punchHole(f *os.File, offset, length int64) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.Fallocate(int(fd), keepSize|punch, offset, length) })
	}
}
