package account

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Groups names the control groups of one command. A directory that is empty, or has no such file, adds no figure.
type Groups struct {
	Unified string // in the hierarchy of version 2

	// Fresh says that Unified is for this command only, so that its peaks and events belong to this one. Without it, only
	// the CPU time is read.
	Fresh bool

	// In hierarchies of version 1. Name only groups in which no other command was before.
	Memory string
	Pids   string

	// Before is the CPU time of commands that were in Unified before. If it is not known, Of is Unknown.
	Before CPU

	// After is the CPU time that was used in Unified until now. If Of is Unknown, it is read.
	After CPU

	// MemoryLimit is the limit of this command alone, in bytes; 0: none.
	MemoryLimit uint64

	// All is the group of all commands together, in the hierarchy that limits their memory to TotalMemory bytes. If TotalMemory
	// is 0, they have no limit.
	All         string
	TotalMemory uint64
}

// Add replaces figures of u by those of the groups, which cover the whole tree.
func (g *Groups) Add(u *Usage) {
	unified := g.Unified
	if !g.Fresh {
		unified = "" // it has only the CPU time
	}
	g.addCPU(u)
	g.addMemory(u, unified)
	for _, dir := range []string{unified, g.Pids} {
		if peak, ok := number(dir, "pids.peak"); ok {
			u.Processes = peak
		}
	}
	addIO(u, unified)
}

func (g *Groups) addCPU(u *Usage) {
	if g.Unified == "" || g.Before.Of != Tree {
		return
	}
	now, ok := g.After, g.After.Of == Tree
	if !ok {
		now, ok = CPUOf(g.Unified)
	}
	if ok {
		u.CPU = CPU{max(0, now.User-g.Before.User), max(0, now.System-g.Before.System), Tree}
	}
}

// CPUOf returns the CPU time that was used in a group of version 2 since it was made. Each such group has it,
// also without controllers.
func CPUOf(dir string) (CPU, bool) {
	var buffer [smallFile]byte // the figures are in its first lines
	text, ok := read(dir, "cpu.stat", buffer[:])
	if !ok {
		return CPU{}, false
	}
	user, haveUser := value(text, "user_usec")
	system, haveSystem := value(text, "system_usec")
	return CPU{time.Duration(user) * time.Microsecond, time.Duration(system) * time.Microsecond, Tree}, haveUser && haveSystem
}

func (g *Groups) addMemory(u *Usage, unified string) {
	if peak, ok := number(unified, "memory.peak"); ok {
		u.Memory = Memory{peak, Tree}
	}
	var buffer [smallFile]byte
	if events, ok := read(unified, "memory.events", buffer[:]); ok {
		kills, _ := value(events, "oom_kill")
		reached, _ := value(events, "oom")
		u.Kill = g.kill(kills, reached > 0)
	}
	peak, ok := number(g.Memory, "memory.max_usage_in_bytes")
	if ok {
		u.Memory = Memory{peak, Tree}
	}
	if control, ok := read(g.Memory, "memory.oom_control", buffer[:]); ok {
		kills, _ := value(control, "oom_kill")
		u.Kill = g.kill(kills, reachedVersion1(g.Memory, g.MemoryLimit))
	}
}

// reachedVersion1 reports whether a group of version 1 has reached its limit.
func reachedVersion1(dir string, limit uint64) bool {
	memory, _ := number(dir, "memory.failcnt")
	swap, _ := number(dir, "memory.memsw.failcnt") // a limit that includes swap is reached first
	peak, ok := number(dir, "memory.max_usage_in_bytes")
	return memory > 0 || swap > 0 || ok && peak+chargeAhead >= limit // newer kernels count no failures
}

// reachedTotal reports whether all commands together have reached their limit.
func (g *Groups) reachedTotal() bool {
	if g.TotalMemory == 0 {
		return false
	}
	var buffer [smallFile]byte
	if events, ok := read(g.All, "memory.events.local", buffer[:]); ok { // memory.events also counts commands that reach their own limits
		reached, _ := value(events, "oom")
		return reached > 0
	}
	return reachedVersion1(g.All, g.TotalMemory)
}

// chargeAhead is how much memory the kernel may reserve for a group at a time: a request that fails may be below the
// limit by so much.
const chargeAhead = 256 << 10

// kill describes kills. reached says whether the limit of the group itself was reached.
func (g *Groups) kill(kills uint64, reached bool) Kill {
	k := Kill{Processes: kills}
	switch {
	case kills == 0:
	case reached && g.MemoryLimit > 0:
		k.Cause, k.Limit = OwnLimit, g.MemoryLimit
	case g.reachedTotal():
		k.Cause, k.Limit = TotalLimit, g.TotalMemory
	}
	return k
}

func addIO(u *Usage, unified string) {
	if unified == "" {
		return
	}
	if text, ok := read(unified, "io.stat", make([]byte, disksFile)); ok {
		in, out := sumDisks(text)
		u.IO = IO{max(u.IO.Read, in), max(u.IO.Written, out), Tree}
	}
}

// sumDisks adds up lines such as "8:0 rbytes=4096 wbytes=0 rios=1 …".
func sumDisks(text []byte) (read, written uint64) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || isStacked(string(fields[0])) {
			continue
		}
		for _, field := range fields[1:] {
			if digits, ok := bytes.CutPrefix(field, []byte("rbytes=")); ok {
				read += parsed(digits)
			} else if digits, ok := bytes.CutPrefix(field, []byte("wbytes=")); ok {
				written += parsed(digits)
			}
		}
	}
	return read, written
}

// devices is where the kernel describes block devices.
var devices = "/sys/dev/block"

// isStacked reports whether a device, such as a logical volume, passes all reads and writes on to others, which count
// them again.
func isStacked(device string) bool {
	below, err := os.ReadDir(filepath.Join(devices, device, "slaves"))
	return err == nil && len(below) > 0
}

// How much of a file is read.
const (
	smallFile = 512     // all files but those below are shorter, or have the figures at their beginning
	disksFile = 4 << 10 // figures of disks: enough for 40
)

// read reads the beginning of a file of a group into buffer.
func read(dir, name string, buffer []byte) (text []byte, ok bool) {
	if dir == "" {
		return nil, false
	}
	return readFile(dir+"/"+name, buffer)
}

// number returns the number that a file consists of.
func number(dir, name string) (uint64, bool) {
	var buffer [smallFile]byte
	text, ok := read(dir, name, buffer[:])
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}

// value returns the number behind a word at the beginning of a line.
func value(text []byte, word string) (uint64, bool) {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(word+" ")); ok {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(rest)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

func parsed(digits []byte) uint64 {
	n, _ := strconv.ParseUint(string(digits), 10, 64)
	return n
}
