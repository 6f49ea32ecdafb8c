package seccomp

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
)

// A Mode selects rules about the network, or about files.
type Mode uint8

const (
	Restricted Mode = iota // no network; the zero value
	Proxy                  // internet sockets, which lead to a proxy on loopback only
	ProxyUnix              // Proxy with Unix sockets (dangerouslyAllowAllUnixSockets)
	Open                   // the host's network

	// SetID is a separate program, loaded beside the one of the network, for a command
	// whose files are confined: it cannot make files that run with the rights of their
	// owner.
	SetID
)

var modeNames = []string{Restricted: "restricted", Proxy: "proxy", ProxyUnix: "proxy-unix", Open: "open", SetID: "set-id"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", m)
}

// An Arch is a processor architecture as GOARCH spells it, so that
// Arch(runtime.GOARCH) is the architecture of this program.
type Arch string

const (
	AMD64 Arch = "amd64"
	ARM64 Arch = "arm64"
)

// A syscallTable describes an architecture.
type syscallTable struct {
	audit   uint32            // its AUDIT_ARCH value
	x32     bool              // its numbers overlap with the numbers of x32
	numbers map[string]uint32 // of each call in rules
	lacks   []string          // calls in rules that it does not have
}

var syscallTables = map[Arch]syscallTable{AMD64: amd64, ARM64: arm64}

// Offsets in the input of a program, struct seccomp_data of the kernel. The low
// half of an argument comes first, because all architectures in syscallTables
// are little-endian.
const (
	offsetNumber  = 0
	offsetArch    = 4
	offsetArg0Low = 16
	offsetArg1Low = offsetArg0Low + sizeArg
	sizeArg       = 8
)

// Results of a program; an errno is added to retErrno.
const (
	retKillProcess = 0x80000000
	retErrno       = 0x00050000
	retAllow       = 0x7fff0000
)

// Numbers of x32: those with the x32 bit, and those that kernels before 5.4 also
// accepted without it.
const (
	x32Bit   = 0x40000000
	x32First = 512
	x32Last  = 547
)

// maxJump is how many instructions a conditional jump can skip: its two offsets
// are a byte each.
const maxJump = 255

// The instructions of a filter, as the kernel has them in linux/bpf_common.h. Package bpf has a type for each, with its text
// for people, which together take 20 KB.
const (
	opLoad    = 0x20 // BPF_LD | BPF_W | BPF_ABS
	opAnd     = 0x54 // BPF_ALU | BPF_AND | BPF_K
	opEqual   = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	opGreater = 0x25 // BPF_JMP | BPF_JGT | BPF_K
	opAtLeast = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	opBitsSet = 0x45 // BPF_JMP | BPF_JSET | BPF_K
	opReturn  = 0x06 // BPF_RET | BPF_K
)

// Program returns the filter for mode on arch. It fails for an unknown mode
// or architecture; it never leaves a rule out.
func Program(mode Mode, arch Arch) ([]bpf.RawInstruction, error) {
	if int(mode) >= len(modeNames) {
		return nil, fmt.Errorf("seccomp program: unknown mode %v", mode)
	}
	table, ok := syscallTables[arch]
	if !ok {
		return nil, fmt.Errorf("seccomp program: unsupported architecture %q", arch)
	}
	program, err := compile(rules, mode, table)
	if err != nil {
		return nil, fmt.Errorf("seccomp program for %v on %s: %w", mode, arch, err)
	}
	return program, nil
}

// Encode returns the program as an array of struct sock_filter in this machine's
// byte order: the format that the kernel takes, and that bubblewrap reads from
// --seccomp FD.
func Encode(program []bpf.RawInstruction) []byte {
	encoded := make([]byte, 0, 8*len(program))
	for _, in := range program {
		encoded = binary.NativeEndian.AppendUint16(encoded, in.Op)
		encoded = append(encoded, in.Jt, in.Jf)
		encoded = binary.NativeEndian.AppendUint32(encoded, in.K)
	}
	return encoded
}

// A condition is what makes a call fail, besides its number: see [rule].
type condition struct {
	errno      errno
	bits       uint32
	arg, flags int
}

// compile turns the rules of one mode into a program. Calls that fail under the same condition have one block, and each
// call that is decided by its domain has its own. The program loads an argument only after the number has matched. So the
// kernel can find out which calls are always allowed, and skips the program for them.
func compile(rules []rule, mode Mode, table syscallTable) ([]bpf.RawInstruction, error) {
	program := prologue(table)
	var conditions []condition
	calls := make(map[condition][]uint32)
	var blocks []bpf.RawInstruction
	seen := make(map[string]bool)
	for _, r := range rules {
		if !r.in.has(mode) {
			continue
		}
		if slices.Contains(table.lacks, r.name) {
			continue
		}
		number, ok := table.numbers[r.name]
		if !ok {
			return nil, fmt.Errorf("no number for system call %s", r.name)
		}
		if seen[r.name] {
			return nil, fmt.Errorf("two rules for system call %s", r.name)
		}
		seen[r.name] = true
		if r.unless != nil || r.only != nil {
			block, err := denyDomains(number, r)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, block...)
			continue
		}
		c := condition{r.errno, r.bits, r.arg, r.flags}
		if calls[c] == nil {
			conditions = append(conditions, c)
		}
		calls[c] = append(calls[c], number)
	}
	for _, c := range conditions {
		program = append(program, denyNumbers(calls[c], c.decide())...)
	}
	program = append(program, blocks...)
	return append(program, give(retAllow)), nil
}

// prologue rejects calls with the numbers of other architectures and leaves
// the number of the call in the accumulator.
func prologue(table syscallTable) []bpf.RawInstruction {
	program := []bpf.RawInstruction{
		load(offsetArch),
		{Op: opEqual, K: table.audit, Jt: 1},
		give(retKillProcess),
		load(offsetNumber),
	}
	if table.x32 {
		program = append(program,
			bpf.RawInstruction{Op: opAtLeast, K: x32Bit, Jt: 2},
			bpf.RawInstruction{Op: opGreater, K: x32Last, Jt: 2},
			bpf.RawInstruction{Op: opAtLeast, K: x32First, Jf: 1},
			fail(eNoSys),
		)
	}
	return program
}

// denyNumbers lets decide decide the calls in numbers, and falls through for others. Numbers share it as far as a jump can
// reach; a longer list gets more.
func denyNumbers(numbers []uint32, decide []bpf.RawInstruction) []bpf.RawInstruction {
	var program []bpf.RawInstruction
	for chunk := range slices.Chunk(numbers, maxJump+1) {
		for i, number := range chunk {
			left := uint8(len(chunk) - 1 - i) // comparisons before decide; at most maxJump
			jump := bpf.RawInstruction{Op: opEqual, K: number, Jt: left}
			if left == 0 {
				jump.Jf = uint8(len(decide))
			}
			program = append(program, jump)
		}
		program = append(program, decide...)
	}
	return program
}

// decide returns the instructions that end the program for a call with this condition.
func (c condition) decide() []bpf.RawInstruction {
	if c.bits == 0 {
		return []bpf.RawInstruction{fail(c.errno)}
	}
	var block []bpf.RawInstruction
	if c.flags > 0 { // without one of these flags the mode is ignored, and may be garbage
		block = append(block,
			load(offsetArg0Low+uint32(c.flags)*sizeArg),
			bpf.RawInstruction{Op: opBitsSet, K: makesFile, Jf: 3},
		)
	}
	return append(block,
		load(offsetArg0Low+uint32(c.arg)*sizeArg),
		bpf.RawInstruction{Op: opBitsSet, K: c.bits, Jf: 1},
		fail(c.errno),
		give(retAllow),
	)
}

// denyDomains decides the call number by its domain and falls through for other
// calls.
func denyDomains(number uint32, r rule) ([]bpf.RawInstruction, error) {
	listed, match, other := r.unless, give(retAllow), fail(r.errno)
	if r.only != nil {
		listed, match, other = r.only, fail(r.errno), give(retAllow)
	}
	if r.unless != nil && r.only != nil {
		return nil, fmt.Errorf("rule for %s has both unless and only", r.name)
	}
	matched := []bpf.RawInstruction{match}
	if r.connected {
		matched = []bpf.RawInstruction{
			load(offsetArg1Low),
			{Op: opAnd, K: sockTypes},
			{Op: opEqual, K: sockStream, Jt: 2},
			{Op: opEqual, K: sockSeqpacket, Jt: 1},
			fail(r.errno),
			match,
		}
	}
	size := len(listed) + 2 + len(matched) // load, comparisons, a return
	if size > maxJump {
		return nil, fmt.Errorf("rule for %s lists %d domains, too many to jump over", r.name, len(listed))
	}
	block := []bpf.RawInstruction{
		{Op: opEqual, K: number, Jf: uint8(size)},
		load(offsetArg0Low),
	}
	for i, d := range listed {
		toMatch := uint8(len(listed) - i) // the comparisons left, and the return for other domains
		block = append(block, bpf.RawInstruction{Op: opEqual, K: uint32(d), Jt: toMatch})
	}
	return append(append(block, other), matched...), nil
}

func load(offset uint32) bpf.RawInstruction { return bpf.RawInstruction{Op: opLoad, K: offset} }

func fail(e errno) bpf.RawInstruction { return give(retErrno | uint32(e)) }

// give ends the program with its result.
func give(result uint32) bpf.RawInstruction { return bpf.RawInstruction{Op: opReturn, K: result} }
