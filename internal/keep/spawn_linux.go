//go:build amd64 || arm64

package keep

import (
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// firstPassed is the first descriptor that a child gets besides standard input, output and error.
	firstPassed = 3
	// maxPassed is how many descriptors a child can get, with that of its program.
	maxPassed = 3
)

// A spawner starts children. It has all that the child needs between fork and execve, in a form that the child can
// use without the Go runtime and without memory of its own. It must not lie on a stack, because the kernel writes to it.
type spawner struct {
	owner int32       // pid of the keeper
	files unix.Rlimit // of the child. The Go runtime has raised the keeper's own
	env   **byte

	argv   **byte
	pass   [maxPassed]int32 // the child's descriptors from firstPassed on; the last one is the program
	count  uintptr
	pidfd  int32
	errno  syscall.Errno
	name   [1]byte   // the empty name, ends with 0
	action [4]uint64 // struct sigaction: the default
	none   uint64    // no signals
	saved  unix.Sigset_t
}

// start executes the program behind the last of the descriptors. The child gets the others, from firstPassed on, with the
// keeper's standard input, output and error. When this thread of the keeper ends, the child gets SIGTERM.
func (s *spawner) start(argv []*byte, pass ...int) (pid, pidfd int, err error) {
	s.argv, s.count = &argv[0], uintptr(len(pass))
	for i, fd := range pass {
		s.pass[i] = int32(fd)
	}
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = math.MaxUint64
	}
	// A handler of the Go runtime must not run in the child.
	unix.PthreadSigmask(unix.SIG_SETMASK, &all, &s.saved)
	child := s.fork()
	unix.PthreadSigmask(unix.SIG_SETMASK, &s.saved, nil)
	if s.errno != 0 {
		return 0, -1, s.errno
	}
	unix.FcntlInt(uintptr(s.pidfd), unix.F_SETFD, 0) // it stays when the keeper is replaced
	return int(child), int(s.pidfd), nil
}

// fork copies the process. The copy has one thread and shares no memory with the keeper, so nothing that happens there can
// harm the keeper.
//
//go:norace
//go:nosplit
func (s *spawner) fork() uintptr {
	var pid uintptr
	pid, _, s.errno = syscall.RawSyscall6(unix.SYS_CLONE, unix.CLONE_PIDFD|uintptr(unix.SIGCHLD), 0, uintptr(unsafe.Pointer(&s.pidfd)), 0, 0, 0)
	if s.errno == 0 && pid == 0 {
		s.become()
	}
	return pid
}

// become makes the copy the child. It does not return.
//
//go:norace
//go:nosplit
func (s *spawner) become() {
	const setSize = 8 // bytes of a set of signals
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&s.action)), 0, setSize, 0, 0)
	}
	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0)
	if parent, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); int32(parent) != s.owner {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, exitNotExecuted, 0, 0) // the keeper is dead
	}
	// In a session of its own the child gets no signals of the terminal: the keeper forwards them.
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	end := firstPassed + s.count
	for i := uintptr(0); i < s.count; i++ { // out of the way of the numbers that the child will use
		fd, _, _ := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(s.pass[i]), unix.F_DUPFD, end)
		s.pass[i] = int32(fd)
	}
	for i := uintptr(0); i < s.count; i++ {
		flags := uintptr(0)
		if i == s.count-1 {
			flags = unix.O_CLOEXEC
		}
		syscall.RawSyscall(unix.SYS_DUP3, uintptr(s.pass[i]), firstPassed+i, flags)
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, end, math.MaxUint32, 0)
	syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&s.files)), 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.none)), 0, setSize, 0, 0)
	syscall.RawSyscall6(unix.SYS_EXECVEAT, end-1, uintptr(unsafe.Pointer(&s.name)), uintptr(unsafe.Pointer(s.argv)),
		uintptr(unsafe.Pointer(s.env)), unix.AT_EMPTY_PATH, 0)
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, exitNotExecuted, 0, 0)
	}
}
