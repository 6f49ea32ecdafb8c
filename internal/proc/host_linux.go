package proc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/fork"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/slots"
)

const (
	ioctlGetTermios = unix.TCGETS
	openDirectory   = unix.O_PATH // enough for chdir
)

// launchesAtOnce is how many starts may hold the descriptors of both sides while
// they wait for a fork: thousands of concurrent starts must not use up all
// descriptors.
const launchesAtOnce = 32

// host is the Linux part of a supervisor.
type host struct {
	sup      *Supervisor
	log      *slog.Logger
	keeper   Keeper // nil: none
	forks    *forker
	cgroups  *cgroups // nil: trees are found in the process table
	limiter  *limiter
	reaper   *reaper   // nil: orphans are not adopted
	own      *pidSet   // children that are not reaped yet
	notes    *notebook // nil: none are written
	launches slots.Slots
}

func newHost(s *Supervisor) *host {
	cfg := s.config
	h := &host{sup: s, log: cfg.Log, keeper: cfg.Keeper, own: newPidSet(), launches: slots.New(launchesAtOnce)}
	h.openGroups(cfg)
	if cfg.Notes != "" {
		h.notes = &notebook{path: cfg.Notes, log: h.log, again: cfg.Keeper != nil}
		if h.cgroups == nil { // now, so that no start has to wait for it
			h.notes.open()
		}
	}
	if cfg.Subreaper {
		reaper, err := startReaper(h.log, h.own)
		if err != nil {
			h.log.Warn("orphans will not be adopted", "err", err)
		}
		h.reaper = reaper
	}
	h.forks = startForker(h)
	return h
}

// openGroups finds the cgroups by which processes are found and limited.
func (h *host) openGroups(cfg Config) {
	name := parentName(cfg.Keeper)
	m, err := ownMemberships()
	if err == nil && !cfg.NoCgroups {
		h.cgroups, err = openCgroups(m, name, cfg.Keeper, cfg.OwnGroup)
	}
	if err != nil {
		h.log.Info("no cgroup for processes, using the process table", "err", err)
	}
	h.limiter = newLimiter(m, name, cfg, h.cgroups, err, &h.sup.tasks)
	if cfg.Groups != "" {
		if err := h.recordGroups(cfg.Groups); err != nil {
			h.log.Warn("control groups cannot be recorded: if this server is killed, a server in another control group does not end its commands", "err", err)
		}
	}
}

// close is called when no child is left.
func (h *host) close() {
	h.forks.close()
	if h.reaper != nil {
		h.reaper.close()
	}
	h.limiter.close()
	if h.cgroups != nil {
		h.cgroups.close()
	}
	h.notes.close()
}

// A child is a started process: this side's ends of its pipes, its exit, its tree.
type child struct {
	pid     int
	tty     bool
	stdin   *os.File // nil: none
	outputs []endpoint
	tree    tree

	launched Launched // the processes that a launcher has started

	limited Enforced     // its limits
	limits  *limitGroups // cgroups of version 1 that enforce some of them; nil: none

	kept      *kept  // nil: the child ends with this program
	inherited uint64 // bytes of memory that this program had when it made the child; 0: not known

	foreign bool     // it is a child of the keeper
	own     *pidSet  // nil if it is
	pidfd   *os.File // nil on systems without pidfds: there a wait holds a thread

	reaping sync.Mutex
	reaped  bool
}

// launch starts spec, which was checked before. Calls that may hang on a dead disk
// happen before the fork where possible, and are abandoned when ctx ends: a child
// that hangs before it executes its program holds one of the few threads that fork.
func (h *host) launch(ctx context.Context, spec Spec) (_ *child, err error) {
	req, err := newForkRequest(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := h.launches.Take(ctx); err != nil {
		req.drop()
		return nil, err
	}
	defer h.launches.Free()
	c := &child{tty: spec.TTY, own: h.own, foreign: req.sibling, inherited: account.OwnMemory()}
	defer func() {
		if err != nil {
			c.closeFiles()
		}
	}()
	if err := h.makeDescriptors(c, req, spec); err != nil {
		req.drop()
		return nil, err
	}
	if err := h.limit(c, req, spec); err != nil {
		req.giveUp()
		return nil, err
	}
	if spec.Slot != nil {
		if err := h.record(c, req, spec); err != nil {
			req.giveUp()
			return nil, err
		}
	}
	f, err := h.forks.fork(ctx, req)
	if err != nil {
		failed, ok := errors.AsType[*fork.Error](err)
		if ok && (failed.Step == fork.StepGroup || failed.Step == fork.StepLimit) {
			return nil, fmt.Errorf("limit the command: %w", err)
		}
		if spec.Launcher == nil || ctx.Err() != nil {
			return nil, ExecError(err, req.program)
		}
		if !ok || failed.Step == fork.StepExec { // the text of an earlier step says more than the name of the program
			err = ExecError(err, req.program)
		}
		return nil, &LaunchError{err}
	}
	c.pid, c.limits = f.pid, req.limits
	if f.pidfd >= 0 {
		c.pidfd = os.NewFile(uintptr(f.pidfd), "pidfd")
	}
	if f.inCgroup {
		req.group.leader = c
		c.tree = req.group
	} else {
		req.limits = nil // they belong to the child
		req.giveUp()
		c.tree = newScanTree(c, h.notes)
	}
	if spec.Launcher != nil && spec.Launcher.Stays {
		c.tree = launchedTree{c.tree, c.pid}
	}
	return c, nil
}

// newForkRequest finds the program and describes the fork.
func newForkRequest(ctx context.Context, spec Spec) (*forkRequest, error) {
	req := &forkRequest{ctx: ctx, ctty: spec.TTY, result: make(chan forked)}
	if l := spec.Launcher; l != nil {
		req.program, req.argv, req.env, req.dir = l.Argv[0], l.Argv, l.Env, -1
		if l.Path != "" {
			req.program = l.Path
		}
		req.mounts, req.first, req.ctty = l.Mounts, l.First, spec.TTY && !l.Stays
		req.sibling = l.Stays && spec.Slot != nil // a sandbox ends with its parent
		// The launcher must not continue after its environment was removed. So the
		// start always waits for its child, if only to kill everything that it
		// started.
		req.ctx = context.WithoutCancel(ctx)
		return req, nil
	}
	at, err := Abandonable(ctx, func() (startPoint, error) { return find(spec) }, startPoint.close)
	if err != nil {
		return nil, err
	}
	req.program, req.argv, req.env = at.program, spec.Argv, spec.Env
	if spec.Arg0 != nil {
		req.argv = append([]string{*spec.Arg0}, spec.Argv[1:]...)
	}
	req.dir, req.close = at.dir, []int{at.dir}
	return req, nil
}

// makeDescriptors makes the descriptors of both sides.
func (h *host) makeDescriptors(c *child, req *forkRequest, spec Spec) error {
	var err error
	if spec.TTY {
		err = makeTerminal(c, req, spec)
	} else {
		err = makePipes(c, req, spec)
	}
	if err != nil {
		return err
	}
	if spec.Launcher != nil {
		if err := addLauncherDescriptors(req, spec); err != nil {
			return err
		}
	}
	for _, file := range spec.Files {
		if err := req.giveCopy(file); err != nil {
			return err
		}
	}
	return nil
}

// addLauncherDescriptors moves the command's descriptors behind those of its launcher. The
// launcher gets the terminal too: bubblewrap makes a new /dev/console from it.
func addLauncherDescriptors(req *forkRequest, spec Spec) error {
	command := req.files
	req.files = nil
	if spec.TTY {
		req.files = append(req.files, command[0], command[0])
	} else {
		// Not /dev/null, which belongs to a mount of the host: the first process of a
		// sandbox keeps these descriptors, and a command of root could change the
		// device behind them.
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("make a pipe: %w", err)
		}
		unix.Close(ends[1])
		req.give(ends[0])
		req.files = append(req.files, ends[0])
	}
	if err := req.giveCopy(spec.Launcher.Stderr); err != nil {
		return err
	}
	req.files = append(req.files, command...)
	return nil
}

func makeTerminal(c *child, req *forkRequest, spec Spec) error {
	master, slave, err := openTerminal(terminalSize(spec.Rows, spec.Cols))
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	c.stdin = master
	c.outputs = []endpoint{{outlog.PTY, master}}
	req.give(slave)
	req.files = append(req.files, slave, slave)
	return nil
}

// openTerminal makes a terminal of which only this side's end, the master, is
// non-blocking. (creack/pty leaves both ends blocking: a write to a child that does
// not read would block its caller.)
func openTerminal(size *unix.Winsize) (master *os.File, slave int, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, -1, err
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, -1, err
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size); err != nil {
		return nil, -1, err
	}
	slave, err = unix.Open(fmt.Sprintf("/dev/pts/%d", number), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	return os.NewFile(uintptr(fd), "terminal"), slave, nil
}

func makePipes(c *child, req *forkRequest, spec Spec) error {
	if spec.Stdin != nil {
		if err := req.giveCopy(spec.Stdin); err != nil {
			return err
		}
	} else if spec.PipeStdin {
		ours, theirs, err := pipe(false)
		if err != nil {
			return err
		}
		c.stdin = ours
		req.give(theirs)
	} else {
		null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", os.DevNull, err)
		}
		req.give(null)
	}
	for _, stream := range spec.streams() {
		ours, theirs, err := pipe(true)
		if err != nil {
			return err
		}
		c.outputs = append(c.outputs, endpoint{stream, ours})
		req.give(theirs)
		if spec.OneStream {
			req.files = append(req.files, theirs)
		}
	}
	return nil
}

// pipe makes a pipe of which this side reads or writes. Only this side's end is
// non-blocking.
func pipe(read bool) (ours *os.File, theirs int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, fmt.Errorf("make a pipe: %w", err)
	}
	mine, theirs := ends[0], ends[1]
	if !read {
		mine, theirs = theirs, mine
	}
	if err := unix.SetNonblock(mine, true); err != nil {
		unix.Close(mine)
		unix.Close(theirs)
		return nil, -1, fmt.Errorf("make a pipe: %w", err)
	}
	return os.NewFile(uintptr(mine), "pipe"), theirs, nil
}

func growPipe(fd uintptr, size int) bool {
	_, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size)
	return err == nil
}

// limit gives the request cgroups for its child: an empty one to find it by, if there are cgroups, and those that enforce
// its limits.
func (h *host) limit(c *child, req *forkRequest, spec Spec) (err error) {
	req.cgroup = -1
	if c.limited, err = h.limiter.decide(spec.Limits, spec.BestEffort); err != nil {
		return err
	}
	if req.limits, err = h.limiter.make(&c.limited); err != nil {
		return err
	}
	req.writes, req.rlimits = h.limiter.writes(req.limits), c.limited.rlimits()
	req.mustJoin = c.limited.inCgroup2() || h.cgroups != nil && h.cgroups.total.Any()
	if spec.Launcher != nil && spec.Launcher.LimitsFiles {
		req.rlimits = slices.DeleteFunc(req.rlimits, func(l fork.Rlimit) bool { return l.Resource == unix.RLIMIT_NOFILE })
	}
	if h.cgroups == nil || h.cgroups.broken.Load() {
		return nil
	}
	group, fd, err := h.cgroups.take(&c.limited)
	if err != nil {
		if req.mustJoin {
			return err
		}
		h.log.Warn("no cgroup for a process, using the process table", "err", err)
		return nil
	}
	req.group, req.cgroup = group, fd
	req.close = append(req.close, fd)
	return nil
}

// wait returns how the child has ended when it has, and leaves it unreaped. If a launcher
// does not end although its command has exited, the launcher is killed.
func (c *child) wait() ending {
	if c.launched.Leader == nil {
		return c.awaitExit()
	}
	stop := c.watchLeader()
	end := c.awaitExit()
	if own, hidden := stop(); hidden {
		end.code = own
	}
	return end
}

// awaitExit waits for the child itself.
func (c *child) awaitExit() ending {
	if code, ok := c.kept.exitCode(); ok {
		return ending{code: code, recorded: true}
	}
	if c.foreign {
		return c.awaitForeign()
	}
	var used unix.Rusage
	asked := -1 // the code that came with the usage
	wait := func(idType, id, flags int) (code int, ok bool) {
		asked, ok = exitCode(idType, id, flags, &used)
		return asked, ok
	}
	code, err := -1, errNoPidfd
	if c.pidfd != nil {
		var conn syscall.RawConn
		if conn, err = c.pidfd.SyscallConn(); err == nil {
			err = conn.Read(func(fd uintptr) (ok bool) {
				code, ok = exitOf(
					func() (int, bool) { return wait(unix.P_PIDFD, int(fd), unix.WNOHANG) },
					func() bool { return hasExited(int(fd)) },
					func() int { return exitCodeInTable(int(fd), c.pid) })
				return ok
			})
		}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // abandoned, but it may have exited just now
		code, _ = wait(unix.P_PID, c.pid, unix.WNOHANG)
	case err != nil:
		code, _ = wait(unix.P_PID, c.pid, 0)
	}
	end := ending{code: code}
	if asked >= 0 {
		figures := account.OfRusage(&used)
		end.used = &figures
	}
	return end
}

// abandon makes wait return although the child has not exited.
func (c *child) abandon() {
	if c.pidfd != nil {
		c.pidfd.SetReadDeadline(time.Unix(1, 0))
	}
}

// errNoPidfd means that the system has no pidfds.
var errNoPidfd = errors.New("no pidfd")

// groups names the control groups of the child, which has exited.
func (c *child) groups() account.Groups {
	var g account.Groups
	if group := cgroupOf(c.tree); group != nil {
		g = group.finalAccounts()
	}
	if by := c.limited.By[LimitMemory]; by == ByCgroup1 || by == ByCgroup2 {
		g.MemoryLimit = c.limited.Limits[LimitMemory]
	}
	c.limits.addTo(&g)
	return g
}

// close gives back the resources of the child. The pid stays reserved until the
// tree is released, because the tree may still be signalled.
func (c *child) close() {
	c.closeFiles()
	c.kept.free()
	if c.pidfd != nil {
		c.pidfd.Close()
	}
	c.launched.Close()
	if cgroupOf(c.tree) != nil {
		c.reap() // no search needs the child's number any more; if this fails, release tries again
	}
}

// releaseTree gives up the tree of a closed child, and its limits, if everything that it started has ended.
func (c *child) releaseTree(view tableView) bool {
	return c.limits.release() && c.tree.release(view)
}

func (c *child) closeFiles() {
	if c.stdin != nil {
		c.stdin.Close() // closing twice is harmless
	}
	for _, out := range c.outputs {
		out.file.Close()
	}
}

// reap frees the child's pid. It reports false if that is not possible yet, because a
// process that traces the child has not collected its exit.
func (c *child) reap() bool {
	c.reaping.Lock()
	defer c.reaping.Unlock()
	switch {
	case c.reaped:
		return true
	case c.foreign:
		c.kept.released()
		c.kept.keeper.Reap(c.pid)
		c.reaped = true
	default:
		c.kept.released()
		if c.reaped = reapPid(c.pid, unix.WNOHANG); c.reaped {
			c.own.remove(c.pid)
		}
	}
	if c.kept != nil {
		pointReaped.Passed()
	}
	return c.reaped
}

// gone reports whether the child was reaped: its number may belong to another process.
func (c *child) gone() bool {
	c.reaping.Lock()
	defer c.reaping.Unlock()
	return c.reaped
}

// reapPid reports whether a child has been reaped, by this call or another.
func reapPid(pid, flags int) bool {
	for {
		got, err := unix.Wait4(pid, nil, flags, nil)
		if err != unix.EINTR {
			return err != nil || got == pid
		}
	}
}
