package wire

import (
	"fmt"
	"strconv"
	"time"
)

// What a figure of a Usage covers. Clients must accept other words.
const (
	OfTree    = "tree"    // the command and everything that it started
	OfWaited  = "waited"  // the command and the descendants that their parents have waited for
	OfLargest = "largest" // the largest single process among those
	OfBound   = "bound"   // nothing, but the largest process had at most this much
)

// Usage is the account of a command: what it had used when it exited. It is the member "tetherUsage". A figure that is
// not known is absent.
type Usage struct {
	WallUs    uint64 `json:"wallUs"`    // from the start to the exit
	BlockedUs uint64 `json:"blockedUs"` // the part of it in which the command's output was not read

	UserUs   *uint64 `json:"userUs,omitempty"` // CPU time
	SystemUs *uint64 `json:"systemUs,omitempty"`
	CPUOf    string  `json:"cpuOf,omitempty" wire:"default"` // OfTree or OfWaited

	MemoryPeakBytes *uint64 `json:"memoryPeakBytes,omitempty"`
	MemoryOf        string  `json:"memoryOf,omitempty" wire:"default"` // OfTree, OfLargest or OfBound

	ReadBytes    *uint64 `json:"readBytes,omitempty"` // from disks
	WrittenBytes *uint64 `json:"writtenBytes,omitempty"`
	IOOf         string  `json:"ioOf,omitempty" wire:"default"` // OfTree or OfWaited

	Processes  *uint64     `json:"processes,omitempty"` // the most at the same time
	MemoryKill *MemoryKill `json:"memoryKill,omitempty"`
}

// Values of MemoryKill.Limit. Clients must accept other words.
const (
	LimitCommand = "command" // the limit of this command
	LimitServer  = "server"  // the limit of all commands of the server together
	LimitOuter   = "outer"   // a limit for more than the server, or the memory of the machine
)

// MemoryKill says that the system has killed processes of a command because there was no memory for them.
type MemoryKill struct {
	Processes uint64  `json:"processes"` // how many
	Limit     string  `json:"limit"`     // which limit was reached
	Bytes     *uint64 `json:"bytes,omitempty"`
}

// CPU is the time on processors; 0 if it is not known.
func (u *Usage) CPU() time.Duration {
	if u.UserUs == nil || u.SystemUs == nil {
		return 0
	}
	return time.Duration(*u.UserUs+*u.SystemUs) * time.Microsecond
}

// Text says for people why processes were killed, such as "memory limit of 2 GiB".
func (k *MemoryKill) Text() string {
	limit := "memory limit"
	if k.Bytes != nil {
		limit = "memory limit of " + SizeText(*k.Bytes)
	}
	switch k.Limit {
	case LimitCommand:
		return limit
	case LimitServer:
		return limit + " for all commands of the server"
	}
	return "out of memory (a limit above the server, or the machine)"
}

// SizeText is a number of bytes for people: without loss if it is a whole number of a unit, such as "2 GiB", else with a decimal.
func SizeText(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return strconv.FormatUint(n, 10) + " bytes"
	}
	value, unit := float64(n)/(1<<10), 0
	for value >= 1<<10 && unit < len(units)-1 {
		value /= 1 << 10
		unit++
	}
	if value == float64(uint64(value)) {
		return fmt.Sprintf("%.0f %ciB", value, units[unit])
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// A Survivor is a process that is still there after it was killed.
type Survivor struct {
	PID     int    `json:"pid"`
	State   string `json:"state"`   // the letter of the system, such as "D": it waits in the kernel and cannot be interrupted
	Command string `json:"command"` // name of its program
	Reason  string `json:"reason"`  // for people: why it is still there
}

// MaxSurvivors is how many survivors of one command are named.
const MaxSurvivors = 16

// Text names the survivor for people.
func (s *Survivor) Text() string {
	return fmt.Sprintf("process %d (%s): %s", s.PID, s.Command, s.Reason)
}
