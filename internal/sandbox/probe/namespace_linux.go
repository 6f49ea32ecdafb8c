package probe

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var namespaceProbes = []probe{
	{"unshare", "user|net|mnt|pid|ipc|uts|cgroup|time", unshare},
	{"clone3-newuser", "", clone3NewUser},
	{"setns", "PATH", setns},
	{"chroot", "PATH", chroot},
	{"setuid", "UID", setuid},
	{"nested", "PATHS…", nested},
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

// clone3Args is struct clone_args, as far as its first version goes.
type clone3Args struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
}

// clone3NewUser forks a child in a user namespace of its own by clone3, whose
// flags no filter can read.
func clone3NewUser([]string) error {
	args := &clone3Args{flags: unix.CLONE_NEWUSER, exitSignal: uint64(unix.SIGCHLD)}
	pid, errno := clone3AndExit(args)
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

// nested makes itself root of a user and mount namespace inside this one, where
// it has every capability, and tries to get rid of the mounts that protect paths:
// it makes / writable, unmounts each path, and writes there.
//
// It prints what became of each step, then "contained" if nothing could be
// unmounted or written, else "ESCAPED" and the paths, and fails.
func nested(paths []string) error {
	flags, err := mountFlags("/")
	if err != nil {
		return at("statfs", err)
	}
	var s script
	entered := s.enterUserNamespace()
	remounted := s.remount("/", flags&^unix.MS_RDONLY)
	var attempts []attempt
	for _, path := range paths {
		attempts = append(attempts, s.attack(path))
	}
	results, err := s.run()
	if err != nil {
		return err
	}
	if errno := results[entered].errno; errno != 0 {
		fmt.Printf("unshare: %s\ncontained\n", outcome(errno))
		return errQuiet
	}
	fmt.Printf("remount /: %s\n", outcome(errnoOr(results[remounted].errno)))
	return judge(attempts, results)
}

// judge prints what became of the attempts.
func judge(attempts []attempt, results []result) error {
	var open []string
	for _, a := range attempts {
		unmounted, created, opened := results[a.umount].errno, results[a.create].errno, results[a.open].errno
		if created == unix.ENOTDIR { // it is a file
			created = opened
		}
		fmt.Printf("umount %s: %s\n", a.path, outcome(errnoOr(unmounted)))
		fmt.Printf("write %s: %s\n", a.path, outcome(errnoOr(created)))
		if unmounted == 0 || created == 0 {
			open = append(open, a.path)
		}
	}
	if open != nil {
		fmt.Println("ESCAPED", strings.Join(open, " "))
		return errTold
	}
	fmt.Println("contained")
	return errQuiet
}

// enterUserNamespace adds the steps to be root in new namespaces. Without the
// first the rest of the script is left out: it would harm the outside. A failed
// mapping costs no capability.
func (s *script) enterUserNamespace() int {
	entered := s.must("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER|unix.CLONE_NEWNS)
	for _, file := range []struct{ path, text string }{
		{"/proc/self/setgroups", "deny"},
		{"/proc/self/uid_map", fmt.Sprintf("0 %d 1", os.Geteuid())},
		{"/proc/self/gid_map", fmt.Sprintf("0 %d 1", os.Getegid())},
	} {
		fd := s.try("open "+file.path, unix.SYS_OPENAT, atCWD, s.text(file.path), unix.O_WRONLY, 0)
		s.on(fd, "write "+file.path, unix.SYS_WRITE, s.text(file.text), uintptr(len(file.text)))
	}
	return entered
}

// atCWD is AT_FDCWD in a register.
const atCWD = ^uintptr(-unix.AT_FDCWD - 1)

// An attempt is the steps against one path.
type attempt struct {
	path                 string
	umount, create, open int // steps
}

// attack adds steps to unmount a path, to make and remove a file in it, and to open
// it for writing: one of the last two fits, whether it is a directory or a file.
func (s *script) attack(path string) attempt {
	name := s.text(fmt.Sprintf("%s/.tether-probe-%d", path, os.Getpid()))
	a := attempt{path: path}
	a.umount = s.try("umount", unix.SYS_UMOUNT2, s.text(path), unix.MNT_DETACH)
	a.create = s.try("create", unix.SYS_OPENAT, atCWD, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|quick, 0o600)
	s.then(a.create, "unlink", unix.SYS_UNLINKAT, atCWD, name, 0)
	a.open = s.try("open", unix.SYS_OPENAT, atCWD, s.text(path), unix.O_WRONLY|quick, 0)
	return a
}
