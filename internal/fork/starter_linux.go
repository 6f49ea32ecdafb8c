//go:build amd64 || arm64

package fork

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Starter starts programs, one at a time.
type Starter struct {
	slots slots
	image image // reused

	clone3Works  bool // it did once
	noClone3     bool // the kernel lacks it, or the filter of a container refuses it
	noCloseRange bool // likewise
}

// NewStarter makes a starter. It reserves descriptors, which are the lower the earlier it is made;
// starts are faster if they are low.
func NewStarter() *Starter { return &Starter{slots: reserveSlots()} }

// Close gives up the reserved descriptors.
func (s *Starter) Close() { s.slots.close() }

// Start starts a program and returns when it has been executed, or why it was not. The caller
// keeps its descriptors. If the command has a death signal, the caller must have locked its
// goroutine to its thread.
func (s *Starter) Start(c *Command) (Child, error) {
	if len(c.Files) < leastFiles {
		return Child{}, errFewFiles
	}
	child, err := s.try(c, s.noClone3)
	if err != nil && err.Step == StepClone && missing(err.Errno) && !s.noClone3 && !s.clone3Works && c.Cgroup < 0 {
		child, err = s.try(c, true)
		s.noClone3 = err == nil || err.Step != StepClone
	}
	if err != nil && (err.Step == StepUnshare || err.Step == StepClose) && missing(err.Errno) {
		s.noCloseRange = true
		child, err = s.try(c, s.noClone3)
	}
	if err != nil {
		return Child{}, err
	}
	return child, nil
}

// missing reports whether an errno may mean that the kernel does not know a call or its flags, or
// that a filter refuses it.
func missing(errno syscall.Errno) bool {
	return errno == unix.ENOSYS || errno == unix.EINVAL || errno == unix.EPERM
}

// try starts the program once, by clone3 or by its predecessor.
func (s *Starter) try(c *Command, legacy bool) (Child, *Error) {
	if legacy && c.Cgroup >= 0 {
		return Child{}, &Error{StepClone, unix.ENOSYS}
	}
	files := c.Files
	if c.Dir >= 0 {
		files = append(files[:len(files):len(files)], c.Dir)
	}
	place, err := s.slots.place(files, !s.noCloseRange)
	if err != nil {
		return Child{}, failed(StepFiles, err)
	}
	defer s.slots.release(place)
	m, note := &s.image, c.Note
	if note == nil {
		note = &m.note
	}
	*note = Note{}
	defer m.clear()
	if err := m.compile(c, place, legacy, s.noCloseRange); err != nil {
		return Child{}, failed(StepExec, err)
	}
	m.prepareClone(c, note, place.shared, legacy)
	if s.noCloseRange {
		// Another goroutine may have a descriptor that it has not marked close-on-exec yet.
		syscall.ForkLock.Lock()
		defer syscall.ForkLock.Unlock()
	}
	result := m.run(note)
	if result < 0 {
		return Child{}, &Error{StepClone, syscall.Errno(-result)}
	}
	s.clone3Works = s.clone3Works || !legacy
	child := Child{Pid: int(result), Pidfd: int(m.pidfd)}
	if err := note.Failure.Err(); err != nil {
		child.discard(c.Sibling)
		return Child{}, err
	}
	if legacy {
		if child.Pidfd, err = unix.PidfdOpen(child.Pid, 0); err != nil {
			child.Pidfd = -1
		}
	}
	return child, nil
}

// prepareClone fills in the clone. The child shares this program's memory, and this thread waits
// until the child has left it.
func (m *image) prepareClone(c *Command, note *Note, shared, legacy bool) {
	flags := uint64(unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PARENT_SETTID | c.Namespaces)
	if shared {
		flags |= unix.CLONE_FILES
	}
	exitSignal := uint64(unix.SIGCHLD)
	if c.Sibling {
		flags |= unix.CLONE_PARENT
		exitSignal = 0
	}
	pid := uintptr(unsafe.Pointer(&note.Pid))
	m.pidfd = -1
	if legacy {
		m.clone = call{nr: unix.SYS_CLONE, args: [5]uintptr{uintptr(flags | exitSignal), 0, pid}}
		return
	}
	m.cloneArgs = cloneArgs{
		flags:      flags | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND,
		pidfd:      uint64(uintptr(unsafe.Pointer(&m.pidfd))),
		parentTid:  uint64(pid),
		exitSignal: exitSignal,
	}
	if c.Cgroup >= 0 {
		m.cloneArgs.flags |= unix.CLONE_INTO_CGROUP
		m.cloneArgs.cgroup = uint64(c.Cgroup)
	}
	m.clone = call{nr: unix.SYS_CLONE3, args: [5]uintptr{uintptr(unsafe.Pointer(&m.cloneArgs)), unsafe.Sizeof(m.cloneArgs)}}
}

// run makes the child. All signals are blocked meanwhile: the kernel may give a signal of this program
// to any thread that does not block it, and this one would handle it only after the exec. After the
// predecessor of clone3, also the child would handle signals, by handlers of this program.
func (m *image) run(note *Note) int64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before)
	result := blockingClone(&m.clone, &m.calls[0], &note.Failure)
	unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	runtime.KeepAlive(m)
	return result
}

// discard reaps a child that has given up.
func (c Child) discard(sibling bool) {
	if c.Pidfd >= 0 {
		unix.Close(c.Pidfd)
	}
	for !sibling {
		if _, err := unix.Wait4(c.Pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}
