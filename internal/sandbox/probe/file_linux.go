package probe

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// quick opens without waiting for the other end of a FIFO, and never becomes a
// controlling terminal.
const quick = unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

var fileProbes = []probe{
	{"rename", "A B", func(a []string) error {
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_NOREPLACE)
	}},
	{"link", "A B", func(a []string) error { return unix.Link(a[0], a[1]) }},
	{"symlink", "A B", func(a []string) error { return unix.Symlink(a[0], a[1]) }},
	{"mkdir", "PATH", func(a []string) error { return unix.Mkdir(a[0], 0o755) }},
	{"rmdir", "PATH", func(a []string) error { return unix.Rmdir(a[0]) }},
	{"unlink", "PATH", func(a []string) error { return unix.Unlink(a[0]) }},
	{"truncate", "PATH", truncate},
	{"chmod", "PATH", chmod},
	{"mknod", "PATH", mknod},
	{"write-file", "PATH", writeFile},
	{"read-file", "PATH", readFile},
	{"open-read", "PATH", func(a []string) error { return openClose(unix.AT_FDCWD, a[0], unix.O_RDONLY) }},
	{"open-write", "PATH", func(a []string) error { return openClose(unix.AT_FDCWD, a[0], unix.O_WRONLY) }},
	{"openat-fd", "FD PATH", openatFD},
	{"open-by-handle", "PATH", openByHandle},
	{"proc-root", "PID PATH", procRoot},
	{"proc-mem", "PID", func(a []string) error { return openClose(unix.AT_FDCWD, "/proc/"+a[0]+"/mem", unix.O_RDWR) }},
}

// openClose opens a file and leaves it as it is.
func openClose(dir int, path string, flags int) error {
	fd, err := unix.Openat(dir, path, flags|quick, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// truncate cuts a file to the length it has.
func truncate(args []string) error {
	var st unix.Stat_t
	if err := unix.Stat(args[0], &st); err != nil {
		return at("stat", err)
	}
	return unix.Truncate(args[0], st.Size)
}

// chmod gives a file the mode it has.
func chmod(args []string) error {
	var st unix.Stat_t
	if err := unix.Stat(args[0], &st); err != nil {
		return at("stat", err)
	}
	return unix.Chmod(args[0], st.Mode&0o7777)
}

// mknod makes a twin of /dev/null, and removes it.
func mknod(args []string) error {
	if err := unix.Mknod(args[0], unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		return err
	}
	return at("unlink", unix.Unlink(args[0]))
}

// writeFile adds a line to a file, which need not exist.
func writeFile(args []string) error {
	fd, err := unix.Open(args[0], unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|quick, 0o644)
	if err != nil {
		return at("open", err)
	}
	_, err = unix.Write(fd, []byte("probe\n"))
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return err
}

// readFile reads a file to its end and prints how much that was.
func readFile(args []string) error {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return at("open", err)
	}
	f := os.NewFile(uintptr(fd), args[0])
	defer f.Close()
	n, err := io.Copy(io.Discard, f)
	if err != nil {
		return err
	}
	fmt.Println(n)
	return errQuiet
}

// openatFD opens a path from a descriptor that was inherited.
func openatFD(args []string) error {
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return errUsage
	}
	return openClose(fd, args[1], unix.O_RDONLY)
}

// openByHandle opens a file by number instead of by name, which no mount hides.
func openByHandle(args []string) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, args[0], 0)
	if err != nil {
		return at("name_to_handle_at", err)
	}
	mount, err := unix.Open(args[0], unix.O_RDONLY|quick, 0)
	if err != nil {
		return at("open", err)
	}
	defer unix.Close(mount)
	fd, err := unix.OpenByHandleAt(mount, handle, unix.O_RDONLY|quick)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// procRoot opens a path as another process sees it.
func procRoot(args []string) error {
	return openClose(unix.AT_FDCWD, "/proc/"+args[0]+"/root/"+strings.TrimLeft(args[1], "/"), unix.O_RDONLY)
}
