//go:build linux && (amd64 || arm64)

package keep

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A ledger is memory that the test shares with all its workers, one after the other.
type ledger struct {
	workerPid  atomic.Int64 // of the worker that serves
	starts     atomic.Int64 // of workers, also of those that do not serve
	startTimes [16]atomic.Int64

	stop   atomic.Int64 // 1: begin nothing, complete what is begun
	quiet  atomic.Int64 // 1: that is done
	faults atomic.Int64
	seed   atomic.Int64
	counts [len(caseNames)]atomic.Int64
	slots  [ledgerSlots]ledgerSlot
}

const ledgerSlots = 32

// A ledgerSlot is one command of the storm.
type ledgerSlot struct {
	state  atomic.Int64
	pid    atomic.Int32 // of the command; written by the kernel before the command runs
	_      int32
	status atomic.Int64    // with which the command will end
	inodes [2]atomic.Int64 // of its input and output
}

// The states of a slot. Each is stored before the step that it names is made, or after the one that it says is done.
const (
	slotFree    = iota
	slotIntent  // descriptors will be made and held
	slotHeld    // they are held
	slotRunning // the command was started
	slotEnding  // the end of its input is being sent
	slotExited  // its exit is recorded
)

func openLedger(file *os.File) (*ledger, error) {
	const size = int(unsafe.Sizeof(ledger{}))
	if info, err := file.Stat(); err == nil && info.Size() < int64(size) {
		if err := file.Truncate(int64(size)); err != nil {
			return nil, err
		}
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*ledger)(unsafe.Pointer(&memory[0])), nil
}

// The cases that the workers of a storm meet. One that stays at zero is not tested.
const (
	deathKill = iota
	deathPanic
	caseCompleted
	caseRenewed
	caseOrphan
	caseIntent
	caseIntentHeld
	caseHeld
	caseCloned
	caseRunning
	caseEnding
	caseDropped
	caseExitOwn
	caseExitAdopted
	caseExitUnattended
	caseExited
	caseReaped
)

var caseNames = [...]string{
	deathKill:          "deaths by SIGKILL",
	deathPanic:         "deaths by panic or fault",
	caseCompleted:      "commands completed",
	caseRenewed:        "keepers replaced",
	caseOrphan:         "orphans reaped",
	caseIntent:         "found: intents without descriptors",
	caseIntentHeld:     "found: intents with descriptors",
	caseHeld:           "found: descriptors without a command",
	caseCloned:         "found: commands that were not noted",
	caseRunning:        "found: running commands",
	caseEnding:         "found: ends of input to be sent",
	caseDropped:        "found: ends of input that were sent",
	caseExitOwn:        "exits of own commands",
	caseExitAdopted:    "exits of adopted commands",
	caseExitUnattended: "found: commands that ended without a worker",
	caseExited:         "found: exits recorded, not reaped",
	caseReaped:         "found: exits recorded and reaped",
}
