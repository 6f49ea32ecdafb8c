package seccomp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

var (
	allModes  = []Mode{Restricted, Proxy, ProxyUnix, Open, SetID}
	allArches = []Arch{AMD64, ARM64}
)

// A call is the input of a program: struct seccomp_data.
type call struct {
	number uint32
	audit  uint32
	args   [6]uint64
}

// words lays the call out for bpf.VM. The kernel's loads are in the machine's
// byte order; the VM, made for packets, loads big-endian. So each 32-bit word
// stands at the offset where a little-endian kernel has it, but is written
// big-endian, with the low word of an argument first.
func (c call) words() []byte {
	data := binary.BigEndian.AppendUint32(nil, c.number)
	data = binary.BigEndian.AppendUint32(data, c.audit)
	data = append(data, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa) // instruction pointer
	for _, arg := range c.args {
		data = binary.BigEndian.AppendUint32(data, uint32(arg))
		data = binary.BigEndian.AppendUint32(data, uint32(arg>>32))
	}
	return data
}

// A machine runs one program.
type machine struct{ vm *bpf.VM }

func newMachine(t testing.TB, program []bpf.RawInstruction) machine {
	t.Helper()
	instructions, complete := bpf.Disassemble(program)
	if !complete {
		t.Fatalf("program holds unknown instructions: %v", instructions)
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	return machine{vm}
}

func (m machine) verdict(t testing.TB, c call) uint32 {
	t.Helper()
	got, err := m.vm.Run(c.words())
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return uint32(got)
}

// describe returns a verdict in words, for messages.
func describe(verdict uint32) string {
	switch verdict {
	case retAllow:
		return "allow"
	case retKillProcess:
		return "kill process"
	case retErrno | 1:
		return "EPERM"
	case retErrno | 38:
		return "ENOSYS"
	case retErrno | 107:
		return "ENOTCONN"
	}
	return fmt.Sprintf("%#x", verdict)
}

const (
	allow     = uint32(0x7fff0000)
	kill      = uint32(0x80000000)
	epermed   = uint32(0x00050000 | 1)
	enosysed  = uint32(0x00050000 | 38)
	notConned = uint32(0x00050000 | 107)
)

// specDenied repeats the table of the specification, on purpose not made from
// rules: the calls that fail with any arguments.
var specDenied = map[Mode]string{
	Restricted: "connect accept accept4 bind listen getpeername getsockname shutdown sendto sendmmsg recvmmsg " +
		"getsockopt setsockopt ptrace process_vm_readv process_vm_writev " +
		"io_uring_setup io_uring_enter io_uring_register add_key keyctl request_key",
	Proxy:     "ptrace process_vm_readv process_vm_writev io_uring_setup io_uring_enter io_uring_register add_key keyctl request_key",
	ProxyUnix: "ptrace process_vm_readv process_vm_writev io_uring_setup io_uring_enter io_uring_register add_key keyctl request_key",
	Open:      "io_uring_setup io_uring_enter io_uring_register add_key keyctl request_key",
}

// specVerdict returns the verdict of the specification about a call.
func specVerdict(mode Mode, arch Arch, c call) uint32 {
	table := syscallTables[arch]
	if c.audit != table.audit {
		return kill
	}
	if arch == AMD64 && (c.number >= 0x40000000 || c.number >= 512 && c.number <= 547) {
		return enosysed
	}
	name := ""
	for n, number := range table.numbers {
		if number == c.number {
			name = n
		}
	}
	if mode == SetID {
		return specSetID(name, c)
	}
	const unix, inet, inet6, vsock, stream, seqpacket = 1, 2, 10, 40, 1, 5
	domain := uint32(c.args[0])
	permitted := true
	switch {
	case name == "getpeername" && mode == Restricted:
		return notConned
	case name == "clone3":
		return enosysed
	case name == "unshare" || name == "clone":
		permitted = c.args[0]&0x02000000 == 0
	case name == "socket" && mode == Restricted:
		permitted = domain == unix
	case name == "socket" && mode == Proxy:
		permitted = domain == inet || domain == inet6
	case name == "socket" && mode == ProxyUnix:
		permitted = domain == inet || domain == inet6 || domain == unix
	case name == "socketpair" && mode == Proxy:
		permitted = domain == unix && (c.args[1]&0xf == stream || c.args[1]&0xf == seqpacket)
	case name == "socketpair" && mode != Open:
		permitted = domain == unix
	case name == "socket" || name == "socketpair":
		permitted = domain != vsock
	case name != "":
		permitted = !slices.Contains(strings.Fields(specDenied[mode]), name)
	}
	if !permitted {
		return epermed
	}
	return allow
}

// specSetID returns the verdict of the specification about a call that may give a
// file a mode.
func specSetID(name string, c call) uint32 {
	const suid, sgid, creat, tmpfile, directory = 0o4000, 0o2000, 0o100, 0o20200000, 0o200000
	var mode uint64
	switch name {
	case "openat2":
		return enosysed
	case "chmod", "fchmod", "mknod", "creat":
		mode = c.args[1]
	case "fchmodat", "fchmodat2", "mknodat":
		mode = c.args[2]
	case "open":
		if c.args[1]&(creat|tmpfile&^directory) != 0 {
			mode = c.args[2]
		}
	case "openat":
		if c.args[2]&(creat|tmpfile&^directory) != 0 {
			mode = c.args[3]
		}
	}
	if mode&(suid|sgid) != 0 {
		return epermed
	}
	return allow
}

// forEachProgram runs test for every mode on every architecture.
func forEachProgram(t *testing.T, test func(t *testing.T, mode Mode, arch Arch, m machine)) {
	for _, arch := range allArches {
		for _, mode := range allModes {
			t.Run(fmt.Sprintf("%s/%v", arch, mode), func(t *testing.T) {
				program, err := Program(mode, arch)
				if err != nil {
					t.Fatal(err)
				}
				test(t, mode, arch, newMachine(t, program))
			})
		}
	}
}

func check(t *testing.T, m machine, c call, want uint32) {
	t.Helper()
	if got := m.verdict(t, c); got != want {
		t.Errorf("number %d (%#x), arch %#x, arguments %#x: %s, want %s",
			c.number, c.number, c.audit, c.args[:2], describe(got), describe(want))
	}
}

func TestNamedCalls(t *testing.T) {
	forEachProgram(t, func(t *testing.T, mode Mode, arch Arch, m machine) {
		table := syscallTables[arch]
		for name, number := range table.numbers {
			if name == "socket" || name == "socketpair" {
				continue // TestDomains
			}
			want := allow
			if name == "openat2" && mode == SetID || name == "clone3" && mode != SetID {
				want = enosysed
			}
			if slices.Contains(strings.Fields(specDenied[mode]), name) {
				want = epermed
			}
			if name == "getpeername" && mode == Restricted {
				want = notConned
			}
			check(t, m, call{number: number, audit: table.audit}, want)
			check(t, m, call{number: number, audit: table.audit, args: [6]uint64{1, 1, 1, 1, 1, 1}}, want)
		}
	})
}

// garbageAbove is a value in the upper half of a register, which the kernel
// ignores.
const garbageAbove = 0xdead << 32

// The neighbours of a denied number, and numbers without a call, are allowed
// too.
func TestEveryNumber(t *testing.T) {
	forEachProgram(t, func(t *testing.T, mode Mode, arch Arch, m machine) {
		for number := range uint32(1024) {
			for _, domain := range []uint64{0, 1, 2, 40} {
				for _, kind := range []uint64{0, 1, 2, 3, 4, 5, 6, 10, 0x80801, 0x80802, 0x80803, garbageAbove | 2, garbageAbove | 3, 18, 19} {
					c := call{number, syscallTables[arch].audit, [6]uint64{domain, kind}}
					check(t, m, c, specVerdict(mode, arch, c))
				}
			}
		}
	})
}

func TestForeignArchitectureIsKilled(t *testing.T) {
	forEachProgram(t, func(t *testing.T, mode Mode, arch Arch, m machine) {
		own := syscallTables[arch].audit
		const i386, arm, riscv64 = 0x40000003, 0x40000028, 0xc00000f3
		foreign := []uint32{i386, arm, riscv64, 0, 0xffffffff, own - 1, own + 1, own &^ 0x80000000, own &^ 0x40000000}
		for other, table := range syscallTables {
			if other != arch {
				foreign = append(foreign, table.audit)
			}
		}
		for _, audit := range foreign {
			for _, number := range []uint32{0, 20, 41, 198, 512, 1024, 0x40000000, 0xffffffff} {
				check(t, m, call{number: number, audit: audit}, kill)
			}
		}
	})
}

func TestX32SystemCalls(t *testing.T) {
	forEachProgram(t, func(t *testing.T, mode Mode, arch Arch, m machine) {
		for number, want := range map[uint32]uint32{
			511: allow, 512: enosysed, 521: enosysed, 547: enosysed, 548: allow,
			0x3fffffff: allow, 0x40000000: enosysed, 0x40000000 | 41: enosysed, 0x40000000 | 521: enosysed,
			0x7fffffff: enosysed, 0x80000000: enosysed, 0xffffffff: enosysed,
		} {
			if arch != AMD64 {
				want = allow // the kernel knows none of these numbers
			}
			check(t, m, call{number: number, audit: syscallTables[arch].audit}, want)
		}
	})
}

func TestDomains(t *testing.T) {
	domains := []uint32{0x7fffffff, 0x80000000, 0xffffffff, 0x10001, 0x1000028}
	for d := range uint32(64) {
		domains = append(domains, d)
	}
	garbage := []uint64{0, 1 << 32, 0xffffffff << 32, 1 << 63}
	forEachProgram(t, func(t *testing.T, mode Mode, arch Arch, m machine) {
		table := syscallTables[arch]
		for _, name := range []string{"socket", "socketpair"} {
			for _, domain := range domains {
				for _, upper := range garbage {
					c := call{table.numbers[name], table.audit, [6]uint64{upper | uint64(domain), 1, 1}}
					check(t, m, c, specVerdict(mode, arch, c))
				}
			}
		}
	})
}

// The set-id bits count only in the argument that is the mode, and only if a file is
// made.
func TestSetID(t *testing.T) {
	const creat, tmpfile, garbage = 0o100, 0o20200000, 0xfff << 32
	for _, row := range []struct {
		name  string
		args  [6]uint64
		fails bool
	}{
		{"chmod", [6]uint64{0o6000, 0o755}, false},
		{"chmod", [6]uint64{0, 0o4755}, true},
		{"chmod", [6]uint64{0, 0o2755 | garbage}, true},
		{"chmod", [6]uint64{0, 0o1777 | garbage, 0o6000}, false},
		{"fchmod", [6]uint64{0, 0o6000}, true},
		{"fchmodat", [6]uint64{0, 0o6000, 0o755}, false},
		{"fchmodat", [6]uint64{0, 0, 0o2000}, true},
		{"fchmodat2", [6]uint64{0, 0, 0o4000, 0x100}, true},
		{"mknod", [6]uint64{0, 0o100000 | 0o4755}, true},
		{"mknod", [6]uint64{0, 0o100000 | 0o755, 0o6000}, false},
		{"mknodat", [6]uint64{0, 0, 0o104755}, true},
		{"creat", [6]uint64{0, 0o2711}, true},
		{"open", [6]uint64{0, 0, 0o6777}, false},
		{"open", [6]uint64{0, creat, 0o6777}, true},
		{"open", [6]uint64{0, creat, 0o1777}, false},
		{"open", [6]uint64{0, tmpfile, 0o4777}, true},
		{"openat", [6]uint64{0, creat, 0, 0o4777}, false},
		{"openat", [6]uint64{0, 0, creat | garbage, 0o4777}, true},
		{"openat", [6]uint64{0, 0, tmpfile | 2, 0o2070}, true},
		{"openat", [6]uint64{0, 0o6000, 0o200000, 0o7777}, false},
	} {
		for _, arch := range allArches {
			number, ok := syscallTables[arch].numbers[row.name]
			if !ok {
				continue
			}
			program, err := Program(SetID, arch)
			if err != nil {
				t.Fatal(err)
			}
			want := allow
			if row.fails {
				want = epermed
			}
			check(t, newMachine(t, program), call{number, syscallTables[arch].audit, row.args}, want)
		}
	}
}

// No program but SetID lets a command make a cgroup namespace. Other namespaces and threads are not its matter.
func TestCgroupNamespaces(t *testing.T) {
	const cgroup, user, thread, garbage = 0x02000000, 0x10000000, 0x3d0f00, 0xfff << 32
	forEachProgram(t, func(t *testing.T, mode Mode, arch Arch, m machine) {
		table := syscallTables[arch]
		for _, name := range []string{"clone", "unshare"} {
			for flags, want := range map[uint64]uint32{
				0: allow, user: allow, thread: allow, user | garbage: allow, cgroup << 1: allow, cgroup >> 1: allow,
				cgroup: epermed, cgroup | user: epermed, cgroup | thread: epermed, cgroup | garbage: epermed,
			} {
				if mode == SetID {
					want = allow
				}
				check(t, m, call{table.numbers[name], table.audit, [6]uint64{flags, cgroup, cgroup}}, want)
			}
		}
	})
}

// Some domain rules written by hand, against a mistake that specVerdict and rules
// might share.
func TestDomainsByHand(t *testing.T) {
	const unix, inet, inet6, netlink, packet, alg, vsock = 1, 2, 10, 16, 17, 38, 40
	for _, row := range []struct {
		mode   Mode
		name   string
		passes []uint64
		fails  []uint64
	}{
		{Restricted, "socket", []uint64{unix}, []uint64{inet, inet6, netlink, packet, alg, vsock}},
		{Restricted, "socketpair", []uint64{unix}, []uint64{inet, vsock}},
		{Proxy, "socket", []uint64{inet, inet6}, []uint64{unix, netlink, packet, alg, vsock}},
		{Proxy, "socketpair", []uint64{unix}, []uint64{inet, inet6, vsock}},
		{ProxyUnix, "socket", []uint64{unix, inet, inet6}, []uint64{netlink, packet, alg, vsock}},
		{ProxyUnix, "socketpair", []uint64{unix}, []uint64{inet, inet6, vsock}},
		{Open, "socket", []uint64{unix, inet, inet6, netlink, packet, alg}, []uint64{vsock, vsock | 1<<32}},
		{Open, "socketpair", []uint64{unix, inet}, []uint64{vsock, vsock | 1<<32}},
	} {
		for _, arch := range allArches {
			program, err := Program(row.mode, arch)
			if err != nil {
				t.Fatal(err)
			}
			m, table := newMachine(t, program), syscallTables[arch]
			for _, domain := range row.passes {
				check(t, m, call{table.numbers[row.name], table.audit, [6]uint64{domain, 1}}, allow)
			}
			for _, domain := range row.fails {
				check(t, m, call{table.numbers[row.name], table.audit, [6]uint64{domain, 1}}, epermed)
			}
		}
	}
}

// A list longer than a jump can reach is split, and no rule is lost at the split.
func TestLongLists(t *testing.T) {
	const base = 2000
	for _, count := range []int{1, 2, 254, 255, 256, 257, 511, 512, 513, 1500} {
		table := syscallTable{audit: 7, numbers: make(map[string]uint32)}
		var long []rule
		for i := range count {
			name := fmt.Sprint("call", i)
			table.numbers[name] = uint32(base + 2*i)
			long = append(long, rule{name: name, in: open, errno: ePerm})
		}
		table.numbers["last"] = 1
		long = append(long, rule{name: "last", in: open, errno: ePerm, unless: []domain{afUnix}})
		program, err := compile(long, Open, table)
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(t, program)
		for i := range count {
			check(t, m, call{number: uint32(base + 2*i), audit: 7}, epermed)
			check(t, m, call{number: uint32(base + 2*i + 1), audit: 7}, allow)
		}
		check(t, m, call{number: base - 1, audit: 7}, allow)
		check(t, m, call{number: 1, audit: 7}, epermed)
		check(t, m, call{number: 1, audit: 7, args: [6]uint64{1}}, allow)
	}
}

func TestProgramsAreShort(t *testing.T) {
	const limit = 56 // instructions; the longest has 51
	for _, arch := range allArches {
		for _, mode := range allModes {
			program, err := Program(mode, arch)
			if err != nil {
				t.Fatal(err)
			}
			if len(program) > limit {
				t.Errorf("%v on %s has %d instructions, more than %d", mode, arch, len(program), limit)
			}
		}
	}
}

func TestUnknownIsAnError(t *testing.T) {
	if program, err := Program(SetID+1, AMD64); err == nil {
		t.Errorf("unknown mode gives a program: %v", program)
	}
	if program, err := Program(Restricted, "mips"); err == nil {
		t.Errorf("unknown architecture gives a program: %v", program)
	}
	table := syscallTable{numbers: map[string]uint32{"known": 1}}
	wide := make([]domain, maxJump)
	for name, bad := range map[string][]rule{
		"no number":   {{name: "unknown", in: open, errno: ePerm}},
		"two rules":   {{name: "known", in: open, errno: ePerm}, {name: "known", in: all, errno: eNoSys}},
		"both lists":  {{name: "known", in: open, errno: ePerm, unless: []domain{1}, only: []domain{2}}},
		"long domain": {{name: "known", in: open, errno: ePerm, unless: wide}},
	} {
		if program, err := compile(bad, Open, table); err == nil {
			t.Errorf("%s: compiles to %v", name, program)
		}
	}
}

func TestWidestDomainList(t *testing.T) {
	table := syscallTable{audit: 7, numbers: map[string]uint32{"known": 1}}
	var wide []domain
	for i := range maxJump - 3 {
		wide = append(wide, domain(100+i))
	}
	program, err := compile([]rule{{name: "known", in: open, errno: ePerm, only: wide}}, Open, table)
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, program)
	for _, d := range wide {
		check(t, m, call{1, 7, [6]uint64{uint64(d)}}, epermed)
	}
	check(t, m, call{1, 7, [6]uint64{99}}, allow)
	check(t, m, call{1, 7, [6]uint64{uint64(100 + len(wide))}}, allow)
	check(t, m, call{2, 7, [6]uint64{100}}, allow)
}

func TestEncode(t *testing.T) {
	if order := binary.NativeEndian.Uint16([]byte{1, 0}); order != 1 {
		need.CannotRun(t, "the expected bytes are little-endian, %s is not", runtime.GOARCH)
	}
	got := Encode([]bpf.RawInstruction{{Op: 0x0120, Jt: 3, Jf: 4, K: 0x8090a0b0}, {Op: 6}})
	want := []byte{0x20, 0x01, 3, 4, 0xb0, 0xa0, 0x90, 0x80, 6, 0, 0, 0, 0, 0, 0, 0}
	if !bytes.Equal(got, want) {
		t.Errorf("encoded as % x, want % x", got, want)
	}
}

func TestModeNames(t *testing.T) {
	for mode, want := range map[Mode]string{Restricted: "restricted", ProxyUnix: "proxy-unix", Open: "open", SetID: "set-id", 9: "Mode(9)"} {
		if got := mode.String(); got != want {
			t.Errorf("mode %d is called %q, want %q", mode, got, want)
		}
	}
}

// For every call, every program returns allow, kill or one of its error numbers,
// as the specification says.
func FuzzProgram(f *testing.F) {
	f.Add(uint32(41), uint32(0xc000003e), uint64(40), uint64(1))
	f.Add(uint32(199), uint32(0xc00000b7), uint64(1), uint64(1))
	f.Add(uint32(0x40000000), uint32(0xc000003e), uint64(0), uint64(0))
	f.Add(uint32(20), uint32(0x40000003), uint64(0), uint64(0))
	f.Add(uint32(547), uint32(0xc000003e), uint64(1<<32|40), uint64(0))
	type subject struct {
		mode Mode
		arch Arch
		machine
	}
	var subjects []subject
	for _, arch := range allArches {
		for _, mode := range allModes {
			program, err := Program(mode, arch)
			if err != nil {
				f.Fatal(err)
			}
			subjects = append(subjects, subject{mode, arch, newMachine(f, program)})
		}
	}
	answers := []uint32{allow, kill, epermed, enosysed, notConned}
	f.Fuzz(func(t *testing.T, number, audit uint32, arg0, others uint64) {
		for _, s := range subjects {
			c := call{number, audit, [6]uint64{arg0, others, others, others, others, others}}
			got := s.verdict(t, c)
			if !slices.Contains(answers, got) {
				t.Errorf("%v on %s answers %#x to %+v", s.mode, s.arch, got, c)
			}
			if want := specVerdict(s.mode, s.arch, c); got != want {
				t.Errorf("%v on %s answers %s to %+v, want %s", s.mode, s.arch, describe(got), c, describe(want))
			}
		}
	})
}
