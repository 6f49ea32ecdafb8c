package at

import (
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Openat is openat(2). It is repeated when a signal interrupts it.
func Openat(dir int, name string, flags int, mode uint32) (int, error) {
	return RetryInt(func() (int, error) { return unix.Openat(dir, name, flags, mode) })
}

// Openat2 is openat2(2). It is repeated when a signal interrupts it, or when the kernel cannot
// be sure of the path because something is renamed at the same time.
func Openat2(dir int, name string, how *unix.OpenHow) (int, error) {
	for {
		fd, err := unix.Openat2(dir, name, how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// Retry repeats a system call that a signal interrupts.
func Retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// RetryInt is Retry for a call that returns a number.
func RetryInt(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// ProcPath returns a path to the file of a descriptor, even if another file has its name now. It
// works only where there is a /proc.
func ProcPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Deleted is the text that the kernel appends to the path of a removed file. A file can also
// have such a name.
const Deleted = " (deleted)"

// PathOf returns the path of a descriptor's file, without links, as the kernel knows it. The
// file may have been moved since. The error is ENOENT if the file has no path here.
func PathOf(fd int) (string, error) {
	path, err := ReadLink(unix.AT_FDCWD, ProcPath(fd))
	if err == nil && (path == "" || path[0] != '/') {
		err = unix.ENOENT
	}
	if err != nil {
		return "", err
	}
	return path, nil
}

// ReadLink returns the target of a symbolic link. An empty name means the link that dir
// itself is open on.
func ReadLink(dir int, name string) (string, error) {
	var buffer [unix.PathMax]byte
	n, err := RetryInt(func() (int, error) { return unix.Readlinkat(dir, name, buffer[:]) })
	if err != nil {
		return "", err
	}
	if n == len(buffer) {
		return "", unix.ENAMETOOLONG
	}
	return string(buffer[:n]), nil
}

// Same reports whether a and b are the same file.
func Same(a, b unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

// CloseOnExecFrom lets no program that this process executes have the descriptors from first on.
func CloseOnExecFrom(first int) error {
	if unix.CloseRange(uint(first), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	return eachFrom(first, unix.CloseOnExec) // kernels before 5.11
}

// CloseFrom closes the descriptors from first on. The caller uses none of them.
func CloseFrom(first int) error {
	if unix.CloseRange(uint(first), math.MaxUint32, 0) == nil {
		return nil
	}
	return eachFrom(first, func(fd int) { unix.Close(fd) }) // kernels before 5.9
}

// maxDescriptors bounds the search for descriptors where there is no /proc.
const maxDescriptors = 1 << 16

// eachFrom calls f with each open descriptor from first on. Without a /proc it calls f with each number that a
// descriptor may have.
func eachFrom(first int, f func(fd int)) error {
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, e := range entries {
			if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
				f(fd)
			}
		}
		return nil
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for fd := first; fd < int(min(limit.Cur, maxDescriptors)); fd++ {
		f(fd)
	}
	return nil
}
