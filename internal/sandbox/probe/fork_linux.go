package probe

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A script is a list of system calls for a forked child. The child is a plain
// fork without exec. It has one thread, as unshare of a user namespace demands,
// it needs no program that a sandbox might hide, and its changes to itself end
// with it.
//
// A child of a Go program without exec has no runtime: everything is prepared
// before, and the child only makes raw calls.
type script struct {
	calls  []step
	flags  uintptr        // CLONE_NEW… for the child
	pinned runtime.Pinner // memory that the arguments point to
}

// A step is one call of a script.
type step struct {
	name  string
	nr    uintptr
	args  [6]uintptr
	must  bool // on an error, skip the rest
	after int  // only if this earlier step succeeded; noStep: always
	fd    bool // the first argument is the result of that step
}

// A result is the result of a step. The child writes it to shared memory.
type result struct {
	done  uintptr // 0: the call did not return
	value uintptr
	errno unix.Errno
}

// killedError is the signal that killed a child before the end of its script.
type killedError unix.Signal

func (k killedError) Error() string { return "ended by " + unix.SignalName(unix.Signal(k)) }

// noStep says that a step depends on no earlier one.
const noStep = -1

// try adds a call; the following calls are made even if it fails.
func (s *script) try(name string, nr uintptr, args ...uintptr) int {
	st := step{name: name, nr: nr, after: noStep}
	copy(st.args[:], args)
	s.calls = append(s.calls, st)
	return len(s.calls) - 1
}

// must adds a call; if it fails, the following calls are skipped, because
// they would make no sense or do harm.
func (s *script) must(name string, nr uintptr, args ...uintptr) int {
	i := s.try(name, nr, args...)
	s.calls[i].must = true
	return i
}

// on adds a call on the descriptor that an earlier step has opened.
func (s *script) on(opened int, name string, nr uintptr, args ...uintptr) int {
	i := s.try(name, nr, append([]uintptr{0}, args...)...)
	s.calls[i].after, s.calls[i].fd = opened, true
	return i
}

// then adds a call that is only made if an earlier one succeeded.
func (s *script) then(earlier int, name string, nr uintptr, args ...uintptr) int {
	i := s.try(name, nr, args...)
	s.calls[i].after = earlier
	return i
}

// text returns the address of a NUL-terminated copy, valid until the script has
// run.
func (s *script) text(str string) uintptr { return s.data(append([]byte(str), 0)) }

// data returns the address of b, valid until the script has run.
func (s *script) data(b []byte) uintptr {
	p := unsafe.SliceData(b)
	s.pinned.Pin(p)
	return uintptr(unsafe.Pointer(p))
}

// run runs the script in a child and returns the result of each step. The error is
// about the child, not about a step: it could not be started, or a signal killed
// it.
func (s *script) run() ([]result, error) {
	defer s.pinned.Unpin()
	shared, err := sharedResults(len(s.calls))
	if err != nil {
		return nil, at("mmap", err)
	}
	defer unix.Munmap(shared)
	results := unsafe.Slice((*result)(unsafe.Pointer(&shared[0])), len(s.calls))
	pid, err := s.start(results)
	if err != nil {
		return nil, at("clone", err)
	}
	status, err := reap(pid)
	if err != nil {
		return nil, at("wait4", err)
	}
	copied := append([]result(nil), results...)
	if status.Signaled() {
		return copied, killedError(status.Signal())
	}
	return copied, nil
}

// start forks a child that runs the script, and returns its pid.
func (s *script) start(results []result) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// A signal in the child would call the Go runtime, which does not exist
	// there.
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return 0, err
	}
	pid, errno := forkAndPlay(s.flags|uintptr(unix.SIGCHLD), s.calls, results)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); err != nil {
		return 0, err
	}
	return int(pid), errnoOr(errno)
}

// forkAndPlay returns in the parent only.
//
//go:noinline
//go:norace
//go:nosplit
func forkAndPlay(flags uintptr, calls []step, results []result) (uintptr, unix.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	for i := range calls {
		c := &calls[i]
		first := c.args[0]
		if c.after >= 0 {
			if results[c.after].done == 0 || results[c.after].errno != 0 {
				continue
			}
			if c.fd {
				first = results[c.after].value
			}
		}
		value, _, errno := syscall.RawSyscall6(c.nr, first, c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		results[i].value, results[i].errno, results[i].done = value, errno, 1
		if errno != 0 && c.must {
			break
		}
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// sharedResults returns memory in which the parent sees the child's writes.
func sharedResults(n int) ([]byte, error) {
	size := max(n, 1) * int(unsafe.Sizeof(result{}))
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
}

// sleeper forks a child that only waits, and is killed when this thread ends.
// The caller ends it with end.
func sleeper() (pid int, err error) {
	var s script
	s.must("prctl", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	s.try("ppoll", unix.SYS_PPOLL)
	shared, err := sharedResults(len(s.calls))
	if err != nil {
		return 0, at("mmap", err)
	}
	// The child has its own mapping of the page.
	defer unix.Munmap(shared)
	pid, err = s.start(unsafe.Slice((*result)(unsafe.Pointer(&shared[0])), len(s.calls)))
	return pid, at("clone", err)
}

// end kills a sleeper and waits for it.
func end(pid int) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill child: %w", err)
	}
	for {
		// A traced child may be reported as stopped first.
		status, err := reap(pid)
		if err != nil || status.Exited() || status.Signaled() {
			return err
		}
	}
}

// reap waits for one child.
func reap(pid int) (status unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(pid, &status, unix.WALL, nil)
		if err != unix.EINTR {
			return status, err
		}
	}
}
