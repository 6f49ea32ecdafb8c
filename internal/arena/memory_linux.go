//go:build amd64 || arm64

package arena

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// seals keep the size of the file: a mapped file that shrinks is SIGBUS for its readers.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// createFile returns a file in memory of the given size: with a path one that has a name, else one that is sealed.
func createFile(path string, size int64) (*os.File, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil || limit.Cur < uint64(size) {
		return nil, fmt.Errorf("files of this process are limited to %d bytes", limit.Cur) // ftruncate would end the program
	}
	if path != "" {
		return createNamed(path, size)
	}
	fd, err := unix.MemfdCreate("tether", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create a memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), "arena")
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, fmt.Errorf("size a memory file: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal a memory file: %w", err)
	}
	return f, nil
}

// createNamed makes a file with a name. Only its user can change its size, so it needs no seals.
func createNamed(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create a memory file: %w", err)
	}
	if err = checkNamed(f); err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a memory file: %w", err), f.Close(), os.Remove(path))
	}
	return f, nil
}

// openPath opens a file that createNamed has made.
func openPath(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// checkNamed checks that a file is a regular one in memory, and of this user alone.
func checkNamed(f *os.File) error {
	var system unix.Statfs_t
	var file unix.Stat_t
	if err := errors.Join(unix.Fstatfs(int(f.Fd()), &system), unix.Fstat(int(f.Fd()), &file)); err != nil {
		return err
	}
	switch {
	case file.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%w: not a regular file", ErrDamaged)
	case system.Type != unix.TMPFS_MAGIC:
		return fmt.Errorf("%s is %w", f.Name(), ErrNotMemory)
	case int(file.Uid) != os.Geteuid() || file.Mode&0o077 != 0:
		return fmt.Errorf("%w: it does not belong to this user alone", ErrDamaged)
	}
	return nil
}

// checkFile checks that a file is a memory file whose size cannot change, or can be changed by this user only.
func checkFile(f *os.File) error {
	got, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	switch {
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: not a memory file", ErrDamaged)
	case err != nil:
		return fmt.Errorf("read the seals of the arena: %w", err)
	case got&seals == seals:
		return nil
	case checkNamed(f) != nil:
		return fmt.Errorf("%w: not sealed", ErrDamaged)
	}
	return nil
}

// mapFile maps the beginning of a file.
func mapFile(f *os.File, size int64, write bool) ([]byte, error) {
	protection := unix.PROT_READ
	if write {
		protection |= unix.PROT_WRITE
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(size), protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the arena: %w", err)
	}
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP) // a core dump has neither output nor gigabytes of holes
	return mem, nil
}

func unmapFile(mem []byte) error { return unix.Munmap(mem) }

// allocate gives pages to a range of the file, so that stores to it cannot fail.
func (a *Arena) allocate(offset, size int64) error {
	for {
		err := unix.Fallocate(a.fd, unix.FALLOC_FL_KEEP_SIZE, offset, size)
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return fmt.Errorf("allocate memory of the arena: %w", err)
		}
	}
}

// punch takes the pages of a range away. The range reads as zeros then.
func (a *Arena) punch(offset, size int64) {
	_ = unix.Fallocate(a.fd, unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, offset, size) // the pages stay until they are used again
}

// Splice moves up to n bytes from a pipe to the position in the word off, which the kernel
// moves forward in the same system call.
func (a *Arena) Splice(pipe int, off *Word, n int) (int, error) {
	for {
		moved, err := unix.Splice(pipe, nil, a.fd, off.Offset(), n, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if err != unix.EINTR {
			return int(moved), err
		}
	}
}

// write writes to the file. Unlike a store into mapped memory it returns an error if there
// is no memory.
func (a *Arena) write(p []byte, offset int64) error {
	for len(p) > 0 {
		n, err := unix.Pwrite(a.fd, p, offset)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("write to the arena: %w", err)
		}
		p, offset = p[max(n, 0):], offset+int64(max(n, 0))
	}
	return nil
}

// sendfile moves up to n bytes from the position in the word pos to a descriptor. The kernel moves
// the position forward in the same system call.
func (a *Arena) sendfile(fd int, pos *Word, n int) (int, error) {
	for {
		moved, err := unix.Sendfile(fd, a.fd, pos.Offset(), n)
		if err != unix.EINTR {
			return max(moved, 0), err
		}
	}
}
