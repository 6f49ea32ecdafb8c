package probe

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A script is a list of system calls for a forked child. The child is a plain
// fork without exec: it has one thread, as unshare of a user namespace demands,
// needs no program that a sandbox might hide, and what it changes about itself
// ends with it.
//
// A child of a Go program without exec has no runtime: everything is prepared
// before, and the child only makes raw calls.
type script struct {
	calls  []step
	flags  uintptr        // CLONE_NEW… for the child
	pinned runtime.Pinner // what the arguments point to
}

// A step is one call of a script.
type step struct {
	name  string
	nr    uintptr
	args  [6]uintptr
	must  bool // on an error, leave out the rest
	after int  // only if this earlier step succeeded; noStep: in any case
	fd    bool // the first argument is the result of that step
}

// A result is what became of a step. The child writes it in shared memory.
type result struct {
	done  uintptr // 0: never came back
	value uintptr
	errno unix.Errno
}

// killedError is the signal that ended a child before its script did.
type killedError unix.Signal

func (k killedError) Error() string { return "ended by " + unix.SignalName(unix.Signal(k)) }

// noStep says that a step depends on no earlier one.
const noStep = -1

// try adds a call whose error does not matter for the next ones.
func (s *script) try(name string, nr uintptr, args ...uintptr) int {
	st := step{name: name, nr: nr, after: noStep}
	copy(st.args[:], args)
	s.calls = append(s.calls, st)
	return len(s.calls) - 1
}

// must adds a call without which the next ones make no sense, or do harm.
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

// text is the address of a NUL-terminated copy, good until the script is freed.
func (s *script) text(str string) uintptr { return s.data(append([]byte(str), 0)) }

// data is the address of b, good until the script is freed.
func (s *script) data(b []byte) uintptr {
	p := unsafe.SliceData(b)
	s.pinned.Pin(p)
	return uintptr(unsafe.Pointer(p))
}

// run runs the script in a child and returns what became of each step. The error
// is about the child, not about a step: it could not be made, or a signal ended it.
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
	// A signal in the child would enter a runtime that is not there.
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

// sharedResults is memory that a child's writes are seen in.
func sharedResults(n int) ([]byte, error) {
	size := max(n, 1) * int(unsafe.Sizeof(result{}))
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
}

// sleeper forks a child that only waits, and dies with this thread. end it.
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
