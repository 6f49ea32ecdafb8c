//go:build linux && (amd64 || arm64)

package keep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/tethertest/soak"
)

const (
	// crashWithin bounds the effect behind which a worker of the storm dies.
	crashWithin = 300
	// calmFile is the name of a file. While it exists, workers do not die.
	calmFile = "calm"
	// sweepEffects is how many effects TestDeathBehindEachEffect tries. That is more than a worker needs to take over and to
	// begin with all slots.
	sweepEffects = 2 * ledgerSlots
	// stormThreads is how many commands a worker starts at once.
	stormThreads = 4

	whichInput  = 0 // of a command: a pipe, or its terminal
	whichOutput = 1 // a pipe; a command with a terminal has none
)

// Workers die behind any lasting effect, by signals at any time, and while the keeper is being replaced. Each command that
// was noted runs on and ends with its status, each descriptor that was held is there, and nothing is left over.
func TestStorm(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{Mode: modeStorm, Hasty: true})
	r.until("the first worker serves", func() bool { return r.ledger.workerPid.Load() != 0 })
	missing := func() (cases []string) {
		for i, name := range caseNames {
			if r.ledger.counts[i].Load() == 0 {
				cases = append(cases, name)
			}
		}
		return cases
	}
	workers, most := soak.Scaled(int64(100), 20_000), soak.Scaled(int64(100), 30_000)
	last, since := int64(0), time.Now()
	for n := r.ledger.starts.Load(); n < workers || n < most && len(missing()) > 0; n = r.ledger.starts.Load() {
		pid := r.ledger.workerPid.Load()
		<-time.After(rand.N(15 * time.Millisecond))
		if pid == last {
			if r.ledger.faults.Load() > 0 {
				break
			}
			if time.Since(since) > patience {
				t.Fatalf("worker %d neither dies nor ends", pid)
			}
			continue
		}
		last, since = pid, time.Now()
		if rand.N(4) == 0 { // the others die by themselves
			unix.Kill(int(pid), unix.SIGKILL)
		}
	}
	if cases := missing(); soak.Full() && len(cases) > 0 {
		t.Errorf("not met: %s", strings.Join(cases, ", "))
	}
	if err := os.WriteFile(filepath.Join(r.dir, calmFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.ledger.stop.Store(1)
	r.until("the last commands have ended", func() bool { return r.ledger.quiet.Load() != 0 || r.ledger.faults.Load() > 0 })
	for i, name := range caseNames {
		t.Logf("%6d %s", r.ledger.counts[i].Load(), name)
	}
	t.Logf("%6d workers", r.ledger.starts.Load())
	if n := r.ledger.faults.Load(); n > 0 {
		t.Fatalf("%d faults", n)
	}
	r.until("the worker is the only child", func() bool { return len(r.children()) == 1 })
	// standard descriptors, bell, two for signals, program, two of the server, and two for the worker
	const own = 3 + 1 + 2 + 1 + 2 + 2
	r.until("the keeper holds nothing else", func() bool { return len(r.descriptors()) == own })
	r.stop(unix.SIGTERM, 0)
}

// Worker n dies behind its n-th lasting effect.
func TestDeathBehindEachEffect(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{Mode: modeSweep, Hasty: true})
	for n := int64(0); n < sweepEffects && r.ledger.faults.Load() == 0; n++ { // a busy machine may take long for all of them together
		r.until("the next worker has started", func() bool { return r.ledger.starts.Load() > n || r.ledger.faults.Load() > 0 })
	}
	r.until("the last commands have ended", func() bool { return r.ledger.quiet.Load() != 0 || r.ledger.faults.Load() > 0 })
	if n := r.ledger.faults.Load(); n > 0 || r.ledger.starts.Load() < sweepEffects {
		t.Fatalf("%d faults, %d workers", n, r.ledger.starts.Load())
	}
	r.until("the worker is the only child", func() bool { return len(r.children()) == 1 })
	r.stop(unix.SIGTERM, 0)
}

// A stormSlot is a command, as the present worker sees it.
type stormSlot struct {
	*ledgerSlot
	number  int32
	fds     [2]int // -1: none
	adopted bool
}

func (s *stormSlot) terminal() bool { return s.number%4 == 3 }

// storm is the main function of a worker of the storm.
func (s *testServer) storm(mode string, ending chan os.Signal) error {
	l := s.ledger
	seed := uint64(l.seed.Add(1))
	random := rand.New(rand.NewPCG(seed, 1))
	mayDie := os.Getenv(crash.Variable) != ""
	switch s.order.Detail {
	case 128 + int(unix.SIGKILL):
		s.met(deathKill)
	case 2:
		s.met(deathPanic)
	}
	if mode == modeSweep && !mayDie {
		l.stop.Store(1)
	}
	slots := make([]*stormSlot, ledgerSlots)
	for i := range slots {
		slots[i] = &stormSlot{ledgerSlot: &l.slots[i], number: int32(i), fds: [2]int{-1, -1}}
	}
	for pair, fd := range s.held {
		if pair[0] != Shared {
			slots[pair[0]].fds[pair[1]] = fd
		}
	}
	s.Serve(Events{
		Reload: func() {},
		Ended:  s.reapUnclaimed,
		Missed: func(slot, which int32) { s.fault("missed", slot, which) },
		Drain:  func(time.Duration) {},
		Lost:   func(error) {},
	})
	for _, slot := range slots {
		s.recover(slot)
	}
	if err := s.Ready(); err != nil {
		return err
	}
	l.workerPid.Store(int64(os.Getpid()))
	go func() { // the worker that has asked may be dead when the keeper has been replaced
		for v := range s.verdicts {
			if v.cause == Done {
				s.met(caseRenewed)
			}
		}
	}()
	if mode == modeStorm && random.IntN(4) == 0 {
		s.tellNow(msgRenew)
	}
	var threads sync.WaitGroup
	for i := range stormThreads {
		random := rand.New(rand.NewPCG(seed, uint64(2+i)))
		threads.Go(func() {
			for busy := true; busy || l.stop.Load() == 0; unix.Poll(nil, 1) {
				busy = false
				for j := i; j < len(slots); j += stormThreads {
					s.step(slots[j], random)
					busy = busy || slots[j].state.Load() != slotFree
				}
			}
		})
	}
	threads.Wait()
	if mayDie {
		return errors.New("the last worker must not die")
	}
	l.quiet.Store(1)
	<-ending
	return s.Bye()
}

// point is behind the lasting effects of the test itself.
var point = crash.NewPoint("keep.test")

// planDeath executes this worker of a storm again, with a lasting effect behind which it dies.
func planDeath(mode, dir string) error {
	if os.Getenv(crash.Variable) != "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, calmFile)); err == nil {
		return nil
	}
	at := 1 + rand.IntN(crashWithin)
	if mode == modeSweep {
		counter := filepath.Join(dir, "sweep")
		text, _ := os.ReadFile(counter)
		if at = len(text) + 1; at > sweepEffects {
			return nil
		}
		if err := os.WriteFile(counter, append(text, '.'), 0o600); err != nil {
			return err
		}
	}
	plan := fmt.Sprintf("%s=%d,%s", crash.Variable, at, []string{"kill", "panic", "segv"}[rand.IntN(3)])
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), plan))
}

// store makes a step lasting.
func (s *stormSlot) store(state int64) {
	s.state.Store(state)
	point.Passed()
}

func (s *testServer) fault(what string, args ...any) {
	s.ledger.faults.Add(1)
	fmt.Fprintln(os.Stderr, append([]any{"FAULT", what}, args...)...)
}

func (s *testServer) met(name int) { s.ledger.counts[name].Add(1) }

// recover brings a slot to a state from which step can go on.
func (s *testServer) recover(slot *stormSlot) {
	held := slot.fds[whichInput] >= 0
	state := slot.state.Load()
	if state == slotHeld && slot.pid.Load() != 0 {
		s.met(caseCloned)
		slot.store(slotRunning)
		state = slotRunning
	}
	switch state {
	case slotFree:
		if held {
			s.fault("descriptors of a free slot", slot.number)
		}
		return
	case slotIntent:
		if held {
			s.met(caseIntentHeld)
		} else {
			s.met(caseIntent)
		}
		s.release(slot)
		return
	case slotHeld:
		s.met(caseHeld)
		s.check(slot, true)
		slot.store(slotIntent) // a worker that finds this does not expect the descriptors
		s.release(slot)
		return
	case slotRunning:
		s.met(caseRunning)
		s.check(slot, true)
	case slotEnding:
		if held {
			s.met(caseEnding)
		} else {
			s.met(caseDropped)
		}
		s.check(slot, false)
		s.closeInput(slot)
	case slotExited:
		exit, err := s.Status(context.Background(), int(slot.pid.Load()))
		switch {
		case err != nil:
			s.fault("status", err)
		case !exit.Child || s.claimedElsewhere(slot):
			s.met(caseReaped)
		default:
			s.met(caseExited)
			s.Reap(int(slot.pid.Load()))
		}
		s.release(slot)
		return
	}
	slot.adopted = true
	if exit, err := s.Status(context.Background(), int(slot.pid.Load())); err != nil || !exit.Child {
		s.fault("a command is lost", slot.number, exit, err)
	} else if exit.Ended {
		s.met(caseExitUnattended)
	}
}

// check checks that the keeper has held the right descriptors.
func (s *testServer) check(slot *stormSlot, withInput bool) {
	for which, fd := range slot.fds {
		if which == whichInput && !withInput && fd < 0 || which == whichOutput && slot.terminal() {
			continue
		}
		if inode := inodeOf(fd); inode != slot.inodes[which].Load() {
			s.fault("wrong descriptor", slot.number, which, fd, inode, slot.inodes[which].Load(), "state", slot.state.Load())
		}
	}
}

func inodeOf(fd int) int64 {
	var info unix.Stat_t
	if unix.Fstat(fd, &info) != nil {
		return -1
	}
	return int64(info.Ino)
}

// claimedElsewhere reports whether another command that has not ended has the pid of this slot.
func (s *testServer) claimedElsewhere(slot *stormSlot) bool {
	for i := range s.ledger.slots {
		other := &s.ledger.slots[i]
		if other != slot.ledgerSlot && other.pid.Load() == slot.pid.Load() && other.state.Load() < slotExited {
			return true
		}
	}
	return false
}

// release makes a slot free.
func (s *testServer) release(slot *stormSlot) {
	for which, fd := range slot.fds {
		if fd >= 0 {
			unix.Close(fd)
			slot.fds[which] = -1
		}
	}
	if err := s.Free(slot.number); err != nil {
		s.fault("free", err)
	}
	slot.pid.Store(0)
	slot.adopted = false
	slot.store(slotFree)
}

// step moves a command on.
func (s *testServer) step(slot *stormSlot, random *rand.Rand) {
	switch slot.state.Load() {
	case slotFree:
		if s.ledger.stop.Load() == 0 {
			s.start(slot, random)
		}
	case slotRunning:
		if random.IntN(8) == 0 || s.ledger.stop.Load() != 0 {
			slot.store(slotEnding)
			s.closeInput(slot)
		}
	case slotEnding:
		s.awaitExit(slot)
	}
}

func (s *testServer) start(slot *stormSlot, random *rand.Rand) {
	slot.status.Store(int64(random.IntN(100)))
	if slot.terminal() {
		slot.status.Store(128 + int64(unix.SIGHUP))
	}
	slot.store(slotIntent)
	theirs, err := slot.open()
	if err != nil {
		s.fault("open", err)
		return
	}
	held := []Held{{slot.number, whichInput, slot.fds[whichInput]}}
	if !slot.terminal() {
		held = append(held, Held{slot.number, whichOutput, slot.fds[whichOutput]})
	}
	if err := s.Hold(held...); err != nil {
		s.fault("hold", err)
	}
	slot.store(slotHeld)
	orphan := ""
	if random.IntN(4) == 0 {
		orphan = "(exit 0 &);"
	}
	script := fmt.Sprintf("cat; %s echo %d; exit %d", orphan, slot.status.Load(), slot.status.Load())
	if err := cloneShell((*int32)(unsafe.Pointer(&slot.pid)), theirs, slot.terminal(), script); err != nil {
		s.fault("clone", err)
	}
	point.Passed()
	unix.Close(theirs[0])
	unix.Close(theirs[1])
	slot.store(slotRunning)
}

// open makes the descriptors of a command, and returns its own input and output.
func (s *stormSlot) open() (theirs [2]int, err error) {
	if s.terminal() {
		master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err != nil {
			return theirs, err
		}
		number, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
		if err != nil {
			return theirs, err
		}
		if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
			return theirs, err
		}
		for i := range theirs {
			if theirs[i], err = unix.Open(fmt.Sprintf("/dev/pts/%d", number), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0); err != nil {
				return theirs, err
			}
		}
		s.fds = [2]int{master, -1}
		s.inodes[whichInput].Store(inodeOf(master))
		return theirs, nil
	}
	var in, out [2]int
	if err := unix.Pipe2(in[:], unix.O_CLOEXEC); err != nil {
		return theirs, err
	}
	if err := unix.Pipe2(out[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return theirs, err
	}
	s.fds = [2]int{in[1], out[0]}
	for which, fd := range s.fds {
		s.inodes[which].Store(inodeOf(fd))
	}
	return [2]int{in[0], out[1]}, nil
}

// closeInput ends the command's input, or hangs up its terminal.
func (s *testServer) closeInput(slot *stormSlot) {
	if fd := slot.fds[whichInput]; fd >= 0 {
		unix.Close(fd)
		slot.fds[whichInput] = -1
	}
	if err := s.Drop(slot.number, whichInput); err != nil {
		s.fault("drop", err)
	}
}

// awaitExit records the exit of a command that has ended, and forgets the command.
func (s *testServer) awaitExit(slot *stormSlot) {
	pid := int(slot.pid.Load())
	var exit Exit
	if slot.adopted {
		var err error
		if exit, err = s.Status(context.Background(), pid); err != nil || !exit.Child {
			s.fault("a command is lost", slot.number, exit, err)
			return
		}
	} else {
		state, status := exitOf(unix.P_PID, pid, unix.WNOWAIT)
		exit = Exit{Child: state != stateUnknown, Ended: state == stateEnded, Status: status}
	}
	if !exit.Ended {
		return
	}
	if int64(exit.Status) != slot.status.Load() {
		s.fault("wrong status", slot.number, exit, slot.status.Load())
	}
	if fd := slot.fds[whichOutput]; fd >= 0 {
		text := make([]byte, 64)
		n, err := unix.Read(fd, text)
		// An earlier worker may have read it.
		if want := fmt.Sprintln(slot.status.Load()); string(text[:max(n, 0)]) != want && (n > 0 || !slot.adopted) {
			s.fault("wrong output", slot.number, string(text[:max(n, 0)]), err)
		}
	}
	slot.store(slotExited)
	if slot.adopted {
		s.met(caseExitAdopted)
		s.Reap(pid)
	} else {
		s.met(caseExitOwn)
		exitOf(unix.P_PID, pid, 0)
		point.Passed()
	}
	s.met(caseCompleted)
	s.release(slot)
}

// cloneShell starts a shell whose pid the kernel stores before it runs.
func cloneShell(pid *int32, theirs [2]int, terminal bool, script string) error {
	argv, err := syscall.SlicePtrFromStrings([]string{"sh", "-c", script})
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(os.Environ())
	if err != nil {
		return err
	}
	path, err := syscall.BytePtrFromString("/bin/sh")
	if err != nil {
		return err
	}
	var all, saved unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	unix.PthreadSigmask(unix.SIG_SETMASK, &all, &saved)
	errno := cloneRaw(pid, theirs[0], theirs[1], terminal, path, &argv[0], &env[0])
	unix.PthreadSigmask(unix.SIG_SETMASK, &saved, nil)
	if errno != 0 {
		return errno
	}
	return nil
}

var (
	noSignals     uint64
	defaultAction [4]uint64
)

//go:norace
//go:nosplit
func cloneRaw(pid *int32, in, out int, terminal bool, path *byte, argv, env **byte) syscall.Errno {
	child, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, unix.CLONE_PARENT_SETTID|uintptr(unix.SIGCHLD), 0, uintptr(unsafe.Pointer(pid)), 0, 0, 0)
	if errno != 0 || child != 0 {
		return errno
	}
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&defaultAction)), 0, 8, 0, 0)
	}
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	syscall.RawSyscall(unix.SYS_DUP3, uintptr(in), 0, 0)
	syscall.RawSyscall(unix.SYS_DUP3, uintptr(out), 1, 0)
	if terminal {
		syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, ^uintptr(0)>>32, 0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&noSignals)), 0, 8, 0, 0)
	syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(argv)), uintptr(unsafe.Pointer(env)))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}
