package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/fork"
)

// forkThreads is how many forks may run at once, so that a slow exec does not delay
// the others.
const forkThreads = 4

// A forker forks on threads that live as long as it does: the kernel sends the
// parent-death signal to a child when the *thread* that forked it ends, and Go ends
// threads.
type forker struct {
	host     *host
	requests chan *forkRequest
	quit     chan struct{}
	threads  sync.WaitGroup

	offline offline
}

// A forkRequest owns the descriptors in close and, until it has a child, its cgroups.
type forkRequest struct {
	ctx     context.Context // ends when no start waits for the child any more
	program string
	argv    []string
	env     []string
	dir     int   // an open directory; -1: the root directory
	files   []int // the child's descriptors 0, 1, 2, …
	close   []int
	ctty    bool // the terminal becomes the child's controlling terminal
	mounts  Mounts
	first   *Namespaces // see [Launcher]; nil: the child is no first process
	shares  uintptr     // namespaces of first that the child has in common with the thread that forks it
	slot    *arena.Slot // where the start is recorded; nil: nowhere
	sibling bool        // the child becomes a child of the keeper
	cgroup  int         // -1: none
	group   *cgroup
	limits  *limitGroups // nil: none
	result  chan forked

	writes   []fork.Write
	rlimits  []fork.Rlimit
	mustJoin bool // the cgroup enforces limits
}

type forked struct {
	pid      int
	pidfd    int // -1: the system has no pidfds
	inCgroup bool
	err      error
}

// give makes fd the child's next descriptor.
func (r *forkRequest) give(fd int) {
	r.files = append(r.files, fd)
	r.close = append(r.close, fd)
}

// giveCopy makes a copy of a file the child's next descriptor: the caller may close
// its own file while an abandoned fork still hangs.
func (r *forkRequest) giveCopy(file *os.File) error {
	err := withDescriptor(file, func(fd int) error {
		fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err == nil {
			r.give(fd)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("pass on %s: %w", file.Name(), err)
	}
	return nil
}

func (r *forkRequest) drop() {
	for _, fd := range r.close {
		unix.Close(fd)
	}
	r.close = nil
}

// giveUp releases a request that has no child, or no longer has one.
func (r *forkRequest) giveUp() {
	r.drop()
	if r.group != nil && r.slot != nil {
		r.slot.Cgroup.Store(0, pointDetail) // before another process can be in it
	}
	if r.group != nil && !r.group.release(nil) { // a child that came too late had started processes
		r.group.kill()
		r.group.release(nil)
	}
	r.limits.drop()
}

func startForker(h *host) *forker {
	f := &forker{host: h, requests: make(chan *forkRequest), quit: make(chan struct{})}
	for range forkThreads {
		f.threads.Go(func() { f.thread(f.requests) }) // ends with close
	}
	return f
}

func (f *forker) close() {
	close(f.quit)
	f.threads.Wait()
}

// fork runs the request on one of the threads, unless ctx ends before a thread is
// free. If the request's own context ends first, a child that is still started is
// killed.
func (f *forker) fork(ctx context.Context, r *forkRequest) (forked, error) {
	if r.slot != nil {
		f.host.sup.hangs(r.slot) // until no child writes to it any more
	}
	select {
	case f.queue(r) <- r:
	case <-ctx.Done():
		r.giveUp()
		if r.slot != nil {
			f.host.sup.hangsNoMore(r.slot)
		}
		return forked{}, context.Cause(ctx)
	}
	select {
	case result := <-r.result:
		return result, result.err
	case <-r.ctx.Done():
		return forked{}, context.Cause(r.ctx)
	}
}

func (f *forker) thread(requests <-chan *forkRequest) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	starter := fork.NewStarter()
	defer starter.Close()
	for {
		select {
		case r := <-requests:
			result := f.serve(starter, r)
			if r.slot != nil {
				f.host.sup.hangsNoMore(r.slot)
			}
			if result.err != nil {
				r.giveUp()
			}
			select {
			case r.result <- result:
			case <-r.ctx.Done():
				if result.err == nil {
					f.discard(result)
					r.giveUp()
				}
			}
		case <-f.quit:
			return
		}
	}
}

// serve forks. An error does not say whether the kernel refused the cgroup or the
// program. So until a start in a cgroup has worked once, a failed start is tried
// again without one.
func (f *forker) serve(starter *fork.Starter, r *forkRequest) forked {
	defer r.drop()
	result := r.fork(starter, r.cgroup)
	if r.refused(result.err) && r.renewGroup() {
		result = r.fork(starter, r.cgroup)
	}
	groups := f.host.cgroups
	switch {
	case r.cgroup < 0:
	case result.err == nil:
		groups.proven.Store(true)
	case !groups.proven.Load() && !r.mustJoin:
		err := result.err
		if result = r.fork(starter, -1); result.err == nil {
			groups.broken.Store(true)
			f.host.log.Info("cannot start in a cgroup, using the process table", "err", err)
		}
	}
	if result.err == nil && !r.sibling {
		f.host.own.add(result.pid)
	}
	return result
}

// refused reports whether the kernel has refused to start a process in a cgroup that others have used before. An earlier command
// may have enabled controllers below it, or another program may have removed it.
func (r *forkRequest) refused(err error) bool {
	failed, ok := errors.AsType[*fork.Error](err)
	if !ok || failed.Step != fork.StepClone || r.group == nil || r.group.once {
		return false
	}
	return failed.Errno == unix.EBUSY || failed.Errno == unix.ENODEV || failed.Errno == unix.ENOENT
}

// renewGroup makes the cgroup of the request again, with the same name. Its CPU counter begins at 0.
func (r *forkRequest) renewGroup() bool {
	g := r.group
	if err := removeCgroup(g.path); err != nil && err != unix.ENOENT {
		return false
	}
	if unix.Mkdir(g.path, 0o755) != nil {
		return false
	}
	fd, err := unix.Open(g.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	r.cgroup, r.close = fd, append(r.close, fd)
	g.before = account.CPU{Of: account.Tree}
	if r.slot != nil {
		r.slot.CgroupCPU.Store(0, pointDetail)
		r.slot.Usage.CgroupUser.Store(0, pointDetail)
	}
	return true
}

func (r *forkRequest) fork(starter *fork.Starter, cgroup int) forked {
	command := &fork.Command{
		Path:       r.program,
		Argv:       r.argv,
		Env:        r.env,
		Dir:        r.dir,
		Files:      r.files,
		Terminal:   r.ctty,
		Cgroup:     cgroup,
		Namespaces: r.mounts.namespaces(),
		Writes:     r.writes,
		Limits:     r.rlimits,
	}
	if r.slot != nil {
		command.Note, command.Sibling = forkNote(r.slot), r.sibling
	}
	if !r.ctty && (r.slot == nil || r.sibling) {
		command.DeathSignal = syscall.SIGTERM // without a terminal; a terminal sends SIGHUP by itself
	}
	if r.first != nil {
		command.Namespaces, command.Capabilities = r.first.flags()&^r.shares, firstCapabilities
		command.DeathSignal = syscall.SIGKILL // the first process of a namespace ignores others
	}
	child, err := starter.Start(command)
	if r.slot != nil {
		pointCloned.Passed()
	}
	if err != nil {
		return forked{err: err}
	}
	if child.Pidfd >= 0 {
		unix.SetNonblock(child.Pidfd, true) // so that os.NewFile uses the poller
	}
	return forked{pid: child.Pid, pidfd: child.Pidfd, inCgroup: cgroup >= 0}
}

// flags returns the namespaces of a first process.
func (n *Namespaces) flags() uintptr {
	flags := uintptr(unix.CLONE_NEWPID | unix.CLONE_NEWNS)
	for _, row := range []struct {
		set  bool
		flag uintptr
	}{{n.User, unix.CLONE_NEWUSER}, {n.IPC, unix.CLONE_NEWIPC}, {n.Net, unix.CLONE_NEWNET}} {
		if row.set {
			flags |= row.flag
		}
	}
	return flags
}

// firstCapabilities are the capabilities that a first process needs in its user namespace: for mounts, for directories in
// memory whose mode refuses their owner, for the loopback interface, and to give up all of these.
const firstCapabilities = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SETPCAP

// namespaces returns the namespaces that the child gets of its own.
func (m Mounts) namespaces() uintptr {
	switch m {
	case PrivateMounts:
		return unix.CLONE_NEWNS
	case PrivateAsUser:
		return unix.CLONE_NEWNS | unix.CLONE_NEWUSER
	}
	return 0
}

// discard kills a child that came too late.
func (f *forker) discard(result forked) {
	unix.Kill(-result.pid, unix.SIGKILL)
	if result.pidfd >= 0 {
		unix.Close(result.pidfd)
	}
	reapPid(result.pid, 0)
	f.host.own.remove(result.pid)
}

// exitCode returns how a child ended, without reaping it. ok is false while the
// child runs, which can only happen with WNOHANG. If used is not nil, it gets what the child
// has used, unless the code is -1.
func exitCode(idType, id, flags int, used *unix.Rusage) (code int, ok bool) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(idType, id, &info, unix.WEXITED|unix.WNOWAIT|flags, used)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, err != unix.EAGAIN
		}
		break
	}
	// This part of siginfo_t is missing in x/sys.
	details := (*struct {
		_    [3]int32
		info struct {
			_      [0]uintptr // aligned like the union
			pid    int32
			uid    uint32
			status int32
		}
	})(unsafe.Pointer(&info))
	const exited, killed, dumped = 1, 2, 3 // CLD_…
	switch {
	case details.info.pid == 0:
		return -1, false
	case info.Code == exited:
		return int(details.info.status), true
	case info.Code == killed || info.Code == dumped:
		return 128 + int(details.info.status), true
	}
	return -1, true
}
