package probe

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

var processAttacks = []probe{
	{"ptrace-traceme", "", ptraceTraceme},
	{"process-vm-readv", "", func([]string) error { return processVM(unix.SYS_PROCESS_VM_READV) }},
	{"process-vm-writev", "", func([]string) error { return processVM(unix.SYS_PROCESS_VM_WRITEV) }},
	{"pidfd-getfd", "", pidfdGetfd},
	{"memfd-exec", "", memfdExec},
	{"userfaultfd", "", userfault},
	{"personality", "", personality},
}

// ptraceTraceme asks to be traced by the parent, in a child that then ends.
func ptraceTraceme([]string) error {
	var s script
	s.try("ptrace", unix.SYS_PTRACE, unix.PTRACE_TRACEME)
	return s.last()
}

// processVM copies a byte of this process's memory to another place in it.
func processVM(nr uintptr) error {
	mem := [2]byte{'p', 'p'}
	local, remote := unix.Iovec{Base: &mem[0]}, unix.Iovec{Base: &mem[1]}
	local.SetLen(1)
	remote.SetLen(1)
	return errnoOr(raw(nr, uintptr(os.Getpid()), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0))
}

// pidfdGetfd copies a descriptor of this process.
func pidfdGetfd([]string) error {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return at("pidfd_open", err)
	}
	defer unix.Close(self)
	fd, err := unix.PidfdGetfd(self, self, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// userfault creates a page fault handler, which has nothing to handle.
func userfault([]string) error {
	const userModeOnly = 1 // the kind that an ordinary user may have
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// personality turns off address randomization for a child.
func personality([]string) error {
	const addrNoRandomize = 0x0040000
	var s script
	s.try("personality", unix.SYS_PERSONALITY, addrNoRandomize)
	return s.last()
}

// memfdExec executes a program that is in no file system.
func memfdExec([]string) error {
	program := exitZero(runtime.GOARCH)
	if program == nil {
		return at("build", unix.ENOEXEC)
	}
	fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
	if err != nil {
		return at("memfd_create", err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, program); err != nil {
		return at("write", err)
	}
	var s script
	argv := make([]byte, 2*unsafe.Sizeof(uintptr(0)))
	binary.NativeEndian.PutUint64(argv, uint64(s.text("probe")))
	s.try("execveat", unix.SYS_EXECVEAT, uintptr(fd), s.text(""), s.data(argv), 0, unix.AT_EMPTY_PATH)
	return s.last() // a call that became another program has no errno
}

// Instructions for exit_group(0).
var exitCode = map[string]struct {
	machine uint16
	code    []byte
}{
	"amd64": {62, []byte{0x31, 0xff, 0xb8, 0xe7, 0, 0, 0, 0x0f, 0x05}},                             // xor edi,edi; mov eax,231; syscall
	"arm64": {183, []byte{0x00, 0x00, 0x80, 0xd2, 0xc8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4}}, // mov x0,0; mov x8,94; svc 0
}

// exitZero is the smallest static program that exits with 0: an ELF header, one
// segment, and a few instructions. It is nil for other architectures.
func exitZero(arch string) []byte {
	exit, ok := exitCode[arch]
	if !ok {
		return nil
	}
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(exit.code))
	var elf bytes.Buffer
	put := func(fields ...any) {
		for _, f := range fields {
			_ = binary.Write(&elf, binary.LittleEndian, f) // fixed sizes, to memory
		}
	}
	elf.WriteString("\x7fELF\x02\x01\x01")
	elf.Write(make([]byte, 9))
	put(uint16(2), exit.machine, uint32(1))                          // executable
	put(uint64(base+headers), uint64(64), uint64(0))                 // entry, program headers, no sections
	put(uint32(0), uint16(64), uint16(56), uint16(1), [3]uint16{})   // flags, sizes, counts
	put(uint32(1), uint32(5), uint64(0), uint64(base), uint64(base)) // load readable and executable
	put(size, size, uint64(0x10000))                                 // alignment fits every page size
	elf.Write(exit.code)
	return elf.Bytes()
}
