package probe

import (
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var namespaceAttacks = []probe{
	{"unshare", "user|net|mnt|pid|ipc|uts|cgroup|time", unshare},
	{"clone3", "user|net|mnt|pid|ipc|uts|cgroup|time", clone3New},
	{"setns", "PATH", setns},
	{"chroot", "PATH", chroot},
	{"setuid", "UID", setuid},
}

var namespaceFlags = map[string]uintptr{
	"user": unix.CLONE_NEWUSER, "net": unix.CLONE_NEWNET, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID,
	"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
}

func unshare(args []string) error {
	flag, ok := namespaceFlags[args[0]]
	if !ok {
		return errUsage
	}
	var s script
	s.try("unshare", unix.SYS_UNSHARE, flag)
	return s.last()
}

// setns enters a namespace by its file.
func setns(args []string) error {
	fd, err := unix.Open(args[0], unix.O_RDONLY|quick, 0)
	if err != nil {
		return at("open", err)
	}
	defer unix.Close(fd)
	var s script
	s.try("setns", unix.SYS_SETNS, uintptr(fd), 0)
	return s.last()
}

func chroot(args []string) error {
	var s script
	s.try("chroot", unix.SYS_CHROOT, s.text(args[0]))
	return s.last()
}

// setuid becomes another user, in a child.
func setuid(args []string) error {
	uid, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil {
		return errUsage
	}
	var s script
	s.try("setuid", unix.SYS_SETUID, uintptr(uid))
	return s.last()
}

// clone3Args is the first version of struct clone_args.
type clone3Args struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
}

// clone3New forks a child in a user namespace of its own, and in one of the given kind, with clone3. A
// filter cannot read the flags of clone3.
func clone3New(args []string) error {
	flag, ok := namespaceFlags[args[0]]
	if !ok {
		return errUsage
	}
	pid, errno := clone3AndExit(&clone3Args{flags: uint64(unix.CLONE_NEWUSER | flag), exitSignal: uint64(unix.SIGCHLD)})
	if errno != 0 {
		return errno
	}
	_, err := reap(int(pid))
	return at("wait4", err)
}

// clone3AndExit returns in the parent only.
//
//go:noinline
//go:norace
//go:nosplit
func clone3AndExit(args *clone3Args) (uintptr, unix.Errno) {
	pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	for errno == 0 && pid == 0 {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return pid, errno
}
