package probe

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var fileAttacks = []probe{
	{"link", "A B", func(a []string) error { return unix.Link(a[0], a[1]) }},
	{"symlink", "A B", func(a []string) error { return unix.Symlink(a[0], a[1]) }},
	{"rmdir", "PATH", func(a []string) error { return unix.Rmdir(a[0]) }},
	{"unlink", "PATH", func(a []string) error { return unix.Unlink(a[0]) }},
	{"truncate", "PATH", truncate},
	{"chmod", "PATH", chmod},
	{"mknod", "PATH", mknod},
	{"open-read", "PATH", func(a []string) error { return openClose(unix.AT_FDCWD, a[0], unix.O_RDONLY) }},
	{"openat-fd", "FD PATH", openatFD},
	{"open-by-handle", "PATH", openByHandle},
	{"proc-root", "PID PATH", procRoot},
	{"proc-mem", "PID", func(a []string) error { return openClose(unix.AT_FDCWD, "/proc/"+a[0]+"/mem", unix.O_RDWR) }},
}

// truncate truncates a file to its present length.
func truncate(args []string) error {
	var st unix.Stat_t
	if err := unix.Stat(args[0], &st); err != nil {
		return at("stat", err)
	}
	return unix.Truncate(args[0], st.Size)
}

// chmod sets a file's present mode.
func chmod(args []string) error {
	var st unix.Stat_t
	if err := unix.Stat(args[0], &st); err != nil {
		return at("stat", err)
	}
	return unix.Chmod(args[0], st.Mode&0o7777)
}

// mknod makes a device like /dev/null, and removes it.
func mknod(args []string) error {
	if err := unix.Mknod(args[0], unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		return err
	}
	return at("unlink", unix.Unlink(args[0]))
}

// openatFD opens a path relative to an inherited descriptor.
func openatFD(args []string) error {
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return errUsage
	}
	return openClose(fd, args[1], unix.O_RDONLY)
}

// openByHandle opens a file by its inode number instead of its name: mounts do
// not hide it then.
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
