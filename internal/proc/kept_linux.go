package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/fork"
	"github.com/tetherexec/tether/internal/outlog"
)

// forkNote is the part of a slot that the kernel and the child write.
func forkNote(slot *arena.Slot) *fork.Note { return (*fork.Note)(unsafe.Pointer(slot.Pid.Address())) }

// A note covers the words Pid to Failure.
var _ [unsafe.Sizeof(fork.Note{})]byte = [unsafe.Offsetof(arena.SlotWords{}.Failure) - unsafe.Offsetof(arena.SlotWords{}.Pid) + 8]byte{}

// record prepares the slot of a start: the keeper holds the descriptors of the process before
// there is a process.
func (h *host) record(c *child, req *forkRequest, spec Spec) error {
	if h.keeper == nil {
		return errNoKeeper
	}
	c.kept, req.slot = &kept{h.keeper, spec.Slot}, spec.Slot
	switch l := spec.Launcher; { // first: it says that there are descriptors of a launcher
	case l != nil && l.Stays:
		spec.Slot.Launcher.Store(launcherStays, pointDetail)
	case l != nil:
		spec.Slot.Launcher.Store(launcherEnds, pointDetail)
	}
	if err := c.kept.holdLauncher(spec.Launcher); err != nil {
		return fmt.Errorf("pass the descriptors of a sandbox to the keeper: %w", err)
	}
	held := append(c.descriptors(spec.between), listeners(spec.Listeners)...)
	if err := h.keeper.Hold(Holder(spec.Slot), held...); err != nil {
		return fmt.Errorf("pass the descriptors of a command to the keeper: %w", err)
	}
	var groups account.Groups
	if req.group != nil {
		groups = req.group.accounts()
		spec.Slot.CgroupCPU.Store(uint64(groups.Before.User+groups.Before.System), pointDetail)
		spec.Slot.Cgroup.Store(uint64(req.group.number), pointDetail)
	}
	c.limited.store(spec.Slot)
	req.limits.claim(spec.Slot)
	c.kept.begins(c.inherited, groups)
	spec.Slot.State.Store(slotStarting, pointStarting)
	return nil
}

// holdLauncher lets the keeper hold the descriptors of a launcher.
func (k *kept) holdLauncher(l *Launcher) error {
	if l == nil {
		return nil
	}
	var held []Held
	if l.Report != nil {
		withDescriptor(l.Report, func(fd int) error { held = append(held, Held{HeldReport, fd}); return nil })
	}
	for i, fd := range l.Locks {
		held = append(held, Held{HeldLock + Which(i), fd})
	}
	if len(held) == 0 {
		return nil
	}
	return k.keeper.Hold(LauncherHolder(k.slot), held...)
}

// descriptors lists this side's ends.
func (c *child) descriptors(between *outlog.Between) (held []Held) {
	add := func(which Which, f *os.File) {
		withDescriptor(f, func(fd int) error { held = append(held, Held{which, fd}); return nil })
	}
	if c.tty {
		add(HeldTerminal, c.stdin)
		if between != nil {
			held = append(held, Held{HeldBetweenRead, between.Read}, Held{HeldBetweenWrite, between.Write})
		}
		return held
	}
	if c.stdin != nil {
		add(HeldStdin, c.stdin)
	}
	for _, out := range c.outputs {
		if out.stream == outlog.Stderr {
			add(HeldStderr, out.file)
		} else {
			add(HeldStdout, out.file)
		}
	}
	return held
}

// listeners lists sockets on which a process is served.
func listeners(files []*os.File) (held []Held) {
	for i, f := range files {
		withDescriptor(f, func(fd int) error { held = append(held, Held{HeldListener + Which(i), fd}); return nil })
	}
	return held
}

// noCgroup records that the process has no cgroup, or none any more.
func (k *kept) noCgroup() {
	if k != nil {
		k.slot.Cgroup.Store(0, pointDetail)
	}
}

// reported keeps what a launcher has reported about the processes that it has started, and the sockets on
// which the command is served. It implements the argument of Launcher.Confirm.
func (k *kept) reported(l Launched, sockets []*os.File) error {
	if k == nil {
		return nil
	}
	var held []Held
	for which, f := range map[Which]*os.File{HeldLeader: l.Leader, HeldInit: l.Init} {
		if f != nil {
			withDescriptor(f, func(fd int) error { held = append(held, Held{which, fd}); return nil })
		}
	}
	err := k.keeper.Hold(Holder(k.slot), held...)
	if err == nil && len(sockets) > 0 {
		err = k.keeper.Hold(LauncherHolder(k.slot), listeners(sockets)...)
	}
	if err != nil {
		return fmt.Errorf("pass the descriptors of a sandbox to the keeper: %w", err)
	}
	k.slot.Leader.Store(uint64(l.Pid), pointDetail)
	if l.Init != nil {
		withDescriptor(l.Init, func(fd int) error { k.hasInit(pidOf(fd)); return nil })
	}
	k.slot.Reported.Store(1, pointReported)
	return nil
}

// running records that the command was executed.
func (k *kept) running() {
	if k == nil {
		return
	}
	k.slot.StartedAt.Store(uint64(time.Now().UnixNano()), pointDetail)
	k.slot.State.Store(slotRunning, pointRunning)
}

// adopt makes the child of a slot.
func (h *host) adopt(ctx context.Context, a *Adoption) (*child, error) {
	slot := a.Spec.Slot
	c := &child{pid: int(slot.Pid.Load()), tty: a.Spec.TTY, foreign: true, kept: &kept{h.keeper, slot}, limited: storedLimits(slot)}
	c.inherited = c.kept.inherited()
	switch slot.State.Load() {
	case slotRunning:
	case slotReleased, slotBuried:
		c.reaped = true
	case slotStarting:
		if c.pid == 0 || slot.Failure.Load() != 0 {
			return nil, ErrNeverStarted // a child that has given up is reaped because no slot claims it
		}
		if executed, err := awaitExecuted(ctx, c.pid); err != nil {
			return nil, err
		} else if !executed {
			return nil, ErrNeverStarted
		}
		if err := c.confirm(ctx, a.Spec.Launcher); err != nil {
			return nil, err
		}
		c.kept.running()
	default:
		return nil, ErrNeverStarted
	}
	c.takeFiles(a)
	if !c.reaped {
		if p, err := pin(c.pid); err == nil {
			c.pidfd = p.file
		}
	}
	h.adoptTree(c)
	c.limits = h.limiter.adopt(slot)
	if slot.Launcher.Load() == launcherStays {
		c.tree = launchedTree{c.tree, c.pid}
	}
	return c, nil
}

// confirm finds out whether the command of an adopted launcher was executed. An earlier program may have
// read the report; then the end of the launcher's socket means that the command was executed.
func (c *child) confirm(ctx context.Context, l *Launcher) error {
	if l == nil || l.Confirm == nil {
		return nil
	}
	launched, err := l.Confirm(ctx, c.kept.reported)
	switch {
	case err == nil:
		c.launched = launched
	case !errors.Is(err, io.ErrUnexpectedEOF) || c.kept.slot.Reported.Load() == 0:
		unix.Kill(c.pid, unix.SIGKILL) // the pid is still ours, and its end ends everything in the sandbox
		return ErrNeverStarted
	}
	return nil
}

// take removes a file from the adoption; nil: it has none of this name.
func (a *Adoption) take(which Which) *os.File {
	f := a.Files[which]
	delete(a.Files, which)
	return f
}

// takeFiles gives the child its descriptors. One that is missing has ended before.
func (c *child) takeFiles(a *Adoption) {
	if a.Closed {
		return
	}
	if a.Spec.Slot.Launcher.Load() != 0 && c.launched.Leader == nil {
		c.launched = Launched{Leader: a.take(HeldLeader), Pid: int(a.Spec.Slot.Leader.Load()), Init: a.take(HeldInit)}
	}
	if c.tty {
		if f := a.take(HeldTerminal); f != nil {
			c.stdin, c.outputs = f, []endpoint{{outlog.PTY, f}}
		}
		r, w := a.take(HeldBetweenRead), a.take(HeldBetweenWrite)
		if r != nil && w != nil {
			a.Spec.between = outlog.NewBetween(detached(r), detached(w))
		}
		return
	}
	c.stdin = a.take(HeldStdin)
	for i, which := range []Which{HeldStdout, HeldStderr} {
		if f := a.take(which); f != nil {
			c.outputs = append(c.outputs, endpoint{bothStreams[i], f})
		}
	}
}

// detached closes a file and returns a copy of its descriptor.
func detached(f *os.File) int {
	defer f.Close()
	copied := -1
	withDescriptor(f, func(fd int) (err error) {
		copied, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		return err
	})
	return copied
}

// adoptTree finds the tree of an adopted child.
func (h *host) adoptTree(c *child) {
	slot := c.kept.slot
	number := int(slot.Cgroup.Load())
	switch {
	case number != 0 && h.cgroups != nil:
		group := h.cgroups.adopt(number)
		group.before, group.once = cgroupBefore(slot)
		group.leader = c
		c.tree = group
	case c.reaped:
		c.tree = noTree{}
	default:
		c.tree = newScanTree(c, h.notes)
	}
}

// awaitExecuted reports whether a process that was cloned has executed a program. If it has not
// yet, awaitExecuted waits.
func awaitExecuted(ctx context.Context, pid int) (bool, error) {
	const forkNoExec = 0x40 // PF_FORKNOEXEC
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false, nil // it was reaped: a child that had given up
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		const state, flags = 0, 6
		if len(fields) <= flags {
			return false, fmt.Errorf("the state of process %d cannot be read", pid)
		}
		bits, err := strconv.ParseUint(string(fields[flags]), 10, 64)
		switch {
		case err != nil:
			return false, fmt.Errorf("the flags of process %d: %w", pid, err)
		case bits&forkNoExec == 0:
			return true, nil
		case fields[state][0] == 'Z' || fields[state][0] == 'X':
			return false, nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// awaitForeign waits for the exit of a child of the keeper.
func (c *child) awaitForeign() ending {
	if c.pidfd == nil {
		return ending{code: -1}
	}
	conn, err := c.pidfd.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool { return hasExited(int(fd)) })
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return ending{code: -1}
	}
	code, used, ended := c.kept.keeper.Status(c.pid)
	if !ended && err != nil {
		return ending{code: -1} // abandoned
	}
	if !ended || code < 0 {
		withDescriptor(c.pidfd, func(fd int) error { code = exitCodeInTable(fd, c.pid); return nil })
	}
	return ending{code: code, used: used}
}

// noTree is the tree of a process of which nothing is left.
type noTree struct{}

func (noTree) signal(unix.Signal)         {}
func (noTree) signalBut(unix.Signal, int) {}
func (noTree) kill()                      {}
func (noTree) await(time.Time)            {}
func (noTree) empty() bool                { return true }
func (noTree) release(tableView) bool     { return true }

// adopt returns the cgroup with a number. An earlier program may have killed it by the kernel, so it is not used again.
func (c *cgroups) adopt(number int) *cgroup {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = max(c.next, number)
	g := &cgroup{owner: c, path: c.parent.child(number), number: number}
	g.killed.Store(true)
	return g
}

// SweepUnclaimed kills in the background what processes without a slot of an earlier program have
// left, and removes their cgroups. Call it before anything is started.
func (s *Supervisor) SweepUnclaimed(a *arena.Arena) {
	h := s.needHost()
	claimed, limits := map[int]bool{}, map[int]bool{}
	for _, slot := range a.Slots() {
		claimed[int(slot.Cgroup.Load())] = true
		limits[int(slot.LimitGroup.Load())] = true
	}
	if groups := h.cgroups; groups != nil {
		for _, number := range groups.parent.numbers() {
			if !claimed[number] {
				s.removeLeft(groups.adopt(number))
			}
		}
	}
	h.limiter.sweepUnclaimed(s, limits)
}

// removeLeft kills in the background what is left in a cgroup, and removes it.
func (s *Supervisor) removeLeft(left *cgroup) {
	s.tasks.Go(func() { // ends soon
		if !left.empty() {
			left.killAll()
			left.await(time.Now().Add(killWait))
		}
		removeCgroup(left.path)
	})
}

// discardTree removes the cgroup of a process that was not adopted.
func (h *host) discardTree(slot *arena.Slot) {
	if number := int(slot.Cgroup.Load()); number != 0 && h.cgroups != nil {
		slot.Cgroup.Store(0, pointDetail)
		h.sup.removeLeft(h.cgroups.adopt(number))
	}
	if groups := h.limiter.adopt(slot); groups != nil {
		groups.unclaim()
		h.sup.tasks.Go(groups.end) // ends soon
	}
}
