package proc

import (
	"errors"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/crash"
)

// A Keeper is a program that outlives this one: the parent of this program, which becomes the parent
// of its children when it dies. What a method has told it is safe as soon as the method returns.
type Keeper interface {
	// Hold lets the keeper hold copies of descriptors. Slot 0 is for those that belong to no
	// process; each other slot belongs to one.
	Hold(slot int, held ...Held) error
	// Drop makes the keeper close its copy at once.
	Drop(slot int, which Which)
	// Free makes the keeper close all descriptors of a slot.
	Free(slot int)
	// Status reports how a child of the keeper has ended: as in a shell, -1 if it is not known, and
	// what it has used, nil if that is not known. ended is false while it runs.
	Status(pid int) (code int, used *account.Figures, ended bool)
	// Reap frees the pid of a child of the keeper that has ended.
	Reap(pid int)
	// Pid is the keeper's number. Names that must be the same after a restart have it.
	Pid() int
}

// Which names a descriptor of a slot. The numbers are the same in all versions.
type Which int32

// The descriptors of a process.
const (
	HeldStdin        Which = 1
	HeldStdout       Which = 2
	HeldStderr       Which = 3
	HeldTerminal     Which = 4
	HeldBetweenRead  Which = 5
	HeldBetweenWrite Which = 6
	HeldLeader       Which = 7 // pidfd of the command of a launcher
	HeldInit         Which = 8 // pidfd of the process whose end ends the others of a launcher

	// The descriptors of a launcher, which have a number of the keeper of their own.
	HeldReport Which = 1 // Launcher.Report
	HeldLock   Which = 2 // the first of Launcher.Locks; the others follow

	// HeldListener is the first of the sockets on which a process is served, and the others follow: those of
	// Spec.Listeners belong to the process, those that its launcher has reported to the launcher.
	HeldListener Which = 1 << 20

	// FirstOther is the first number that this package does not use.
	FirstOther Which = 32
)

// heldCgroups is the lock of the cgroups, in slot 0.
const heldCgroups Which = FirstOther - 1

// A Held is a descriptor that a keeper holds.
type Held struct {
	Which Which
	FD    int
}

// States of a slot, besides those of package arena. A slot is in the state arena.SlotTaken until all
// descriptors of the process are held.
const (
	slotStarting = 2 // a process may have been made; if so, the slot has its pid
	slotRunning  = 3 // the program was executed
	slotReleased = 4 // the process has exited, and its pid may belong to another
	slotBuried   = 5 // the keeper has died, and with it the process and all descriptors
)

// Values of the word Ending of a slot.
const (
	endingAsked = 1
	endingTime  = 2 // its time was up
	endingLost  = 3 // it was ended because its keeper had died; only of a buried slot
)

// Values of the word Launcher of a slot.
const (
	launcherEnds  = 1
	launcherStays = 2
)

// Launches reports whether the process of a slot was started by a launcher, whether that stays, and whether it has
// reported that the command is executed.
func Launches(slot *arena.Slot) (launcher, stays, reported bool) {
	return slot.Launcher.Load() != 0, slot.Launcher.Load() == launcherStays, slot.Reported.Load() != 0
}

var (
	pointStarting = crash.NewPoint("proc.starting")
	pointCloned   = crash.NewPoint("proc.cloned")
	pointRunning  = crash.NewPoint("proc.running")
	pointReported = crash.NewPoint("proc.reported")
	pointDetail   = crash.NewPoint("proc.detail")
	pointCode     = crash.NewPoint("proc.code")
	pointExited   = crash.NewPoint("proc.exited")
	pointEnding   = crash.NewPoint("proc.ending")
	pointReleased = crash.NewPoint("proc.released")
	pointReaped   = crash.NewPoint("proc.reaped")
	pointBuried   = crash.NewPoint("proc.buried")
	pointClosing  = crash.NewPoint("proc.input.closing")
)

// ErrNeverStarted means that the program of a slot was never executed, and never will be.
var ErrNeverStarted = errors.New("the command was never executed")

// errNoKeeper means that a Spec has a slot, and the supervisor no keeper.
var errNoKeeper = errors.New("there is no keeper for this process")

// An Adoption describes a process that another program has started, see [Supervisor.Adopt].
type Adoption struct {
	Spec   Spec // as it was started, with its Slot
	Files  map[Which]*os.File
	Sink   Sink
	Closed bool // the sink has been closed before
}

// close closes the descriptors that no process has taken.
func (a *Adoption) close() {
	for which, f := range a.Files {
		f.Close()
		delete(a.Files, which)
	}
}

// Claimed returns the pids of the processes in the slots of an arena that must not be reaped.
func Claimed(a *arena.Arena) map[int]bool {
	pids := map[int]bool{}
	for _, s := range a.Slots() {
		if state := s.State.Load(); state != slotStarting && state != slotRunning {
			continue
		}
		pids[int(s.Pid.Load())] = true
		if init := (&kept{slot: s}).init(); init != 0 && s.Exited.Load() == 0 {
			pids[init] = true // until its usage is recorded
		}
	}
	return pids
}

// Starting reports whether the process of a slot may not have been executed yet.
func Starting(slot *arena.Slot) bool { return slot.State.Load() == slotStarting }

// Cancel records that the process of a slot, which may still be starting, is being terminated.
func Cancel(slot *arena.Slot) { slot.Ending.Store(endingAsked, pointEnding) }

// Bury records in all slots that the keeper has died, after everything that it had left was killed: processes without an
// exit get the exit code -1. It returns how many these are. A slot whose process was never made is left as it is. Burying
// twice is harmless.
func Bury(a *arena.Arena) (lost int) {
	for _, slot := range a.Slots() {
		switch slot.State.Load() {
		case arena.SlotTaken, slotBuried:
			continue
		case slotStarting:
			if slot.Pid.Load() == 0 || slot.Failure.Load() != 0 {
				continue
			}
		}
		if slot.Exited.Load() == 0 {
			lost++
			unknown := int64(-1)
			slot.Ending.Store(endingLost, pointBuried)
			slot.ExitCode.Store(uint64(unknown), pointBuried)
			slot.Exited.Store(1, pointBuried)
		}
		if slot.StartedAt.Load() == 0 {
			slot.StartedAt.Store(uint64(time.Now().UnixNano()), pointBuried)
		}
		slot.Usage.BlockedSince.Store(0, pointBuried) // the output does not wait any more
		slot.Cgroup.Store(0, pointBuried)
		slot.LimitGroup.Store(0, pointBuried)
		slot.State.Store(slotBuried, pointBuried)
	}
	return lost
}

// Buried reports whether the process of a slot has ended with its keeper. known says whether its exit code had been recorded
// before.
func Buried(slot *arena.Slot) (buried, known bool) {
	return slot.State.Load() == slotBuried, slot.Ending.Load() != endingLost
}

// Discard frees a slot that has no process, or none any more, as soon as no start can write to it.
func (s *Supervisor) Discard(slot *arena.Slot) {
	s.mu.Lock()
	if _, hangs := s.hanging[slot]; hangs {
		s.hanging[slot] = true
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.freeSlot(slot)
}

func (s *Supervisor) freeSlot(slot *arena.Slot) {
	s.config.Keeper.Free(Holder(slot))
	s.config.Keeper.Free(LogHolder(slot))
	if slot.Launcher.Load() != 0 {
		s.config.Keeper.Free(LauncherHolder(slot))
	}
	slot.Input().Clear()
	slot.Free()
}

// DropListeners closes the copies of sockets on which a process was served, if a keeper has them: connections to
// them are refused.
func (s *Supervisor) DropListeners(slot *arena.Slot, count int) {
	if s.config.Keeper == nil || slot == nil {
		return
	}
	for i := range count {
		s.config.Keeper.Drop(Holder(slot), HeldListener+Which(i))
		s.config.Keeper.Drop(LauncherHolder(slot), HeldListener+Which(i))
	}
}

// hangs notes that a start writes to a slot, even if it is abandoned.
func (s *Supervisor) hangs(slot *arena.Slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hanging == nil {
		s.hanging = map[*arena.Slot]bool{}
	}
	s.hanging[slot] = false
}

// hangsNoMore notes that it does not any more.
func (s *Supervisor) hangsNoMore(slot *arena.Slot) {
	s.mu.Lock()
	discarded := s.hanging[slot]
	delete(s.hanging, slot)
	s.mu.Unlock()
	if discarded {
		s.freeSlot(slot)
	}
}

// Release says that the owner of the process does not need its slot any more. When everything that
// the process started has ended, the slot is freed, and done is called.
func (p *Process) Release(done func()) {
	p.mu.Lock()
	p.freed = done
	p.mu.Unlock()
	p.freeSlot()
}

// freeSlot frees the slot of a process that is released and settled, and whose descriptors are closed: then
// nothing of the process uses the slot any more.
func (p *Process) freeSlot() {
	p.mu.Lock()
	done := p.freed
	if !p.settled || !p.released || p.child.kept == nil {
		done = nil
	}
	if done != nil {
		p.freed = nil
	}
	p.mu.Unlock()
	if done != nil {
		p.sup.Discard(p.child.kept.slot)
		done()
	}
}

// Each slot has three numbers at the keeper, because its descriptors are needed for different times.
const (
	numbersPerSlot = 3
	numberProcess  = 1
	numberLog      = 2
	numberLauncher = 3
)

// Holder is the keeper's number for the descriptors of the process of a slot.
func Holder(slot *arena.Slot) int { return numbersPerSlot*slot.Index() + numberProcess }

// LogHolder is the keeper's number for the descriptors of the log of a slot, which is kept for longer.
func LogHolder(slot *arena.Slot) int { return numbersPerSlot*slot.Index() + numberLog }

// LauncherHolder is the keeper's number for the descriptors of the launcher of a slot.
func LauncherHolder(slot *arena.Slot) int { return numbersPerSlot*slot.Index() + numberLauncher }

// A kept process is recorded in a slot. The methods do nothing without one.
type kept struct {
	keeper Keeper
	slot   *arena.Slot
}

// exited records how the process has ended.
func (k *kept) exited(code int) {
	if k == nil || k.slot.Exited.Load() != 0 {
		return
	}
	k.slot.ExitCode.Store(uint64(int64(code)), pointCode)
	k.slot.Exited.Store(1, pointExited)
}

// exitCode returns what exited has recorded.
func (k *kept) exitCode() (code int, ok bool) {
	if k == nil || k.slot.Exited.Load() == 0 {
		return 0, false
	}
	return int(int64(k.slot.ExitCode.Load())), true
}

// inputClosed reports whether the end of the input was recorded.
func (k *kept) inputClosed() bool { return k != nil && k.slot.InputClose.Load() != 0 }

// ending records that the process is being terminated.
func (k *kept) ending(timedOut bool) {
	switch {
	case k == nil:
	case timedOut:
		k.slot.Ending.Store(endingTime, pointEnding)
	case k.slot.Ending.Load() == 0:
		k.slot.Ending.Store(endingAsked, pointEnding)
	}
}

// released records that the pid of the process may belong to another from now on.
func (k *kept) released() {
	if k != nil {
		k.slot.State.Store(slotReleased, pointReleased)
	}
}

// launcherEnded closes the descriptors of the launcher that the keeper holds.
func (k *kept) launcherEnded() {
	if k != nil {
		k.keeper.Free(LauncherHolder(k.slot))
	}
}

// free closes all descriptors of the process that the keeper holds.
func (k *kept) free() {
	if k != nil {
		k.keeper.Free(Holder(k.slot))
	}
}
