package proc

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pidSet holds the children that are not reaped. All other children were started by
// other code of this program, or are orphans.
type pidSet struct {
	mu   sync.Mutex
	pids map[int]struct{}
}

func newPidSet() *pidSet { return &pidSet{pids: make(map[int]struct{})} }

func (s *pidSet) add(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pids[pid] = struct{}{}
}

func (s *pidSet) remove(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pids, pid)
}

func (s *pidSet) has(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.pids[pid]
	return ok
}

// A pinned process cannot be confused with another that gets its pid later.
type pinned struct {
	pid  int
	file *os.File // a pidfd; nil: the system has none, and only the pid is used
}

func pin(pid int) (pinned, error) {
	fd, err := unix.PidfdOpen(pid, unix.O_NONBLOCK) // for the poller
	switch err {
	case nil:
		return pinned{pid, os.NewFile(uintptr(fd), "pidfd")}, nil
	case unix.ENOSYS, unix.EPERM, unix.EINVAL:
		return pinned{pid, nil}, nil
	}
	return pinned{}, err
}

func (p pinned) signal(sig syscall.Signal) error {
	if p.file == nil {
		return unix.Kill(p.pid, sig)
	}
	return withDescriptor(p.file, func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
}

// await returns when the process has ended, or at the deadline.
func (p pinned) await(deadline time.Time) {
	if p.file != nil {
		awaitFile(p.file, deadline, hasExited)
	}
}

func (p pinned) close() {
	if p.file != nil {
		p.file.Close()
	}
}

// awaitFile waits in the poller until ready returns true, or until the deadline.
// ready is called at each event of the file.
func awaitFile(f *os.File, deadline time.Time, ready func(fd int) bool) {
	conn, err := f.SyscallConn()
	if err != nil || f.SetReadDeadline(deadline) != nil {
		return
	}
	conn.Read(func(fd uintptr) bool { return ready(int(fd)) })
}
