package files

import (
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// resolveCached is RESOLVE_CACHED of openat2: a name that is not in memory fails with
// EAGAIN.
const resolveCached = 0x20

// cachedMissing is set after the first call that an old kernel refuses.
var cachedMissing atomic.Bool

// ReadCached implements Cached. The path is resolved by names that the kernel has
// in memory (RESOLVE_CACHED), and the content is read if its pages are in memory
// (RWF_NOWAIT). It uses only file systems that answer the calls in between without
// waiting.
func (Direct) ReadCached(path string, b []byte) (int, bool) {
	path, err := clean(path, true)
	if err != nil || cachedMissing.Load() {
		return 0, false
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: resolveCached,
	})
	if err != nil {
		if err == unix.ENOSYS || err == unix.EINVAL {
			cachedMissing.Store(true)
		}
		return 0, false
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || !slices.Contains(promptFileSystems[:], fs.Type) {
		return 0, false
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || kind(st) != unix.S_IFREG || st.Size >= int64(len(b)) {
		return 0, false
	}
	return readPages(fd, st.Size, b)
}

// promptFileSystems open a file and return its size without waiting, and report
// if reading its content would wait.
var promptFileSystems = [...]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}

// readPages reads the regular file of an O_PATH descriptor, whose size is known. b is
// larger, so that a file that grows meanwhile is noticed.
func readPages(fd int, size int64, b []byte) (int, bool) {
	// O_NONBLOCK: do not wait until a lease is given back.
	file, err := unix.Open(at.ProcPath(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(file)
	n, err := unix.Preadv2(file, [][]byte{b}, 0, unix.RWF_NOWAIT)
	return n, err == nil && int64(n) == size
}
