package seccomp

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// The tests in this file load programs into the kernel. A helper, the test binary
// itself, loads them, because a filter cannot be removed again.

const (
	taskProbe = "probe" // print the outcome of each probe as JSON
	taskExec  = "exec"  // execute the program named in the arguments

	noFilter = "none" // instead of a mode
)

func init() { helper = runHelper }

// runHelper performs a task "what mode", after loading that mode's program.
func runHelper(task string) {
	what, mode, _ := strings.Cut(task, " ")
	runtime.LockOSThread()
	if mode != noFilter {
		must(install(Mode(slices.Index(modeNames, mode))))
	}
	switch what {
	case taskProbe:
		must(json.NewEncoder(os.Stdout).Encode(runProbes()))
		os.Exit(0)
	case taskExec:
		must(unix.Exec(os.Args[1], os.Args[1:], nil))
	}
	must(fmt.Errorf("unknown task %q", task))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		os.Exit(1)
	}
}

// install loads the bytes of Encode for every thread of this process.
func install(mode Mode) error {
	program, err := Program(mode, AMD64)
	if err != nil {
		return err
	}
	encoded := Encode(program)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	filter := struct { // struct sock_fprog
		length uint16
		array  *byte
	}{uint16(len(program)), &encoded[0]}
	failed, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	runtime.KeepAlive(encoded)
	if e != 0 {
		return fmt.Errorf("load filter: %w", e)
	}
	if failed != 0 {
		return fmt.Errorf("load filter: thread %d cannot take it", failed)
	}
	return nil
}

// A probe is a system call that does no harm whether or not it is allowed.
type probe struct {
	number uintptr
	args   [4]uintptr
}

const (
	noFD  = ^uintptr(0) // EBADF
	noPID = 1 << 30     // ESRCH: above the largest pid

	stream  = unix.SOCK_STREAM
	garbage = 1 << 32
)

var pairFDs [2]int32

var probes = map[string]probe{
	"socket inet":            {unix.SYS_SOCKET, [4]uintptr{unix.AF_INET, stream}},
	"socket inet6":           {unix.SYS_SOCKET, [4]uintptr{unix.AF_INET6, stream}},
	"socket unix":            {unix.SYS_SOCKET, [4]uintptr{unix.AF_UNIX, stream}},
	"socket unix, garbage":   {unix.SYS_SOCKET, [4]uintptr{unix.AF_UNIX | garbage, stream}},
	"socket netlink":         {unix.SYS_SOCKET, [4]uintptr{unix.AF_NETLINK, unix.SOCK_RAW}},
	"socket vsock":           {unix.SYS_SOCKET, [4]uintptr{unix.AF_VSOCK, stream}},
	"socket vsock, garbage":  {unix.SYS_SOCKET, [4]uintptr{unix.AF_VSOCK | garbage, stream}},
	"socketpair unix":        {unix.SYS_SOCKETPAIR, [4]uintptr{unix.AF_UNIX, stream, 0, uintptr(unsafe.Pointer(&pairFDs))}},
	"socketpair datagrams":   {unix.SYS_SOCKETPAIR, [4]uintptr{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0, uintptr(unsafe.Pointer(&pairFDs))}},
	"socketpair raw":         {unix.SYS_SOCKETPAIR, [4]uintptr{unix.AF_UNIX, unix.SOCK_RAW | unix.SOCK_CLOEXEC, 0, uintptr(unsafe.Pointer(&pairFDs))}},
	"socketpair packets":     {unix.SYS_SOCKETPAIR, [4]uintptr{unix.AF_UNIX, unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC, 0, uintptr(unsafe.Pointer(&pairFDs))}},
	"socketpair inet":        {unix.SYS_SOCKETPAIR, [4]uintptr{unix.AF_INET, stream, 0, uintptr(unsafe.Pointer(&pairFDs))}},
	"socketpair vsock":       {unix.SYS_SOCKETPAIR, [4]uintptr{unix.AF_VSOCK, stream, 0, uintptr(unsafe.Pointer(&pairFDs))}},
	"connect":                {unix.SYS_CONNECT, [4]uintptr{noFD}},
	"accept":                 {unix.SYS_ACCEPT, [4]uintptr{noFD}},
	"accept4":                {unix.SYS_ACCEPT4, [4]uintptr{noFD}},
	"bind":                   {unix.SYS_BIND, [4]uintptr{noFD}},
	"listen":                 {unix.SYS_LISTEN, [4]uintptr{noFD}},
	"getpeername":            {unix.SYS_GETPEERNAME, [4]uintptr{noFD}},
	"getsockname":            {unix.SYS_GETSOCKNAME, [4]uintptr{noFD}},
	"shutdown":               {unix.SYS_SHUTDOWN, [4]uintptr{noFD}},
	"sendto":                 {unix.SYS_SENDTO, [4]uintptr{noFD}},
	"sendmmsg":               {unix.SYS_SENDMMSG, [4]uintptr{noFD}},
	"recvmmsg":               {unix.SYS_RECVMMSG, [4]uintptr{noFD}},
	"getsockopt":             {unix.SYS_GETSOCKOPT, [4]uintptr{noFD}},
	"setsockopt":             {unix.SYS_SETSOCKOPT, [4]uintptr{noFD}},
	"ptrace":                 {unix.SYS_PTRACE, [4]uintptr{unix.PTRACE_ATTACH, noPID}},
	"process_vm_readv":       {unix.SYS_PROCESS_VM_READV, [4]uintptr{noPID}},
	"process_vm_writev":      {unix.SYS_PROCESS_VM_WRITEV, [4]uintptr{noPID}},
	"io_uring_setup":         {unix.SYS_IO_URING_SETUP, [4]uintptr{0}},
	"io_uring_enter":         {unix.SYS_IO_URING_ENTER, [4]uintptr{noFD}},
	"io_uring_register":      {unix.SYS_IO_URING_REGISTER, [4]uintptr{noFD}},
	"read":                   {unix.SYS_READ, [4]uintptr{noFD}},
	"sendmsg":                {unix.SYS_SENDMSG, [4]uintptr{noFD}},
	"recvmsg":                {unix.SYS_RECVMSG, [4]uintptr{noFD}},
	"recvfrom":               {unix.SYS_RECVFROM, [4]uintptr{noFD}},
	"pidfd_getfd":            {unix.SYS_PIDFD_GETFD, [4]uintptr{noFD}},
	"unshare with bad flags": {unix.SYS_UNSHARE, [4]uintptr{1}},
	// The kernel refuses unknown flags of unshare, and a mount namespace with CLONE_FS.
	"unshare cgroup":        {unix.SYS_UNSHARE, [4]uintptr{unix.CLONE_NEWCGROUP | 1}},
	"clone":                 {unix.SYS_CLONE, [4]uintptr{unix.CLONE_NEWNS | unix.CLONE_FS}},
	"clone cgroup":          {unix.SYS_CLONE, [4]uintptr{unix.CLONE_NEWCGROUP | unix.CLONE_NEWNS | unix.CLONE_FS}},
	"clone cgroup, garbage": {unix.SYS_CLONE, [4]uintptr{unix.CLONE_NEWCGROUP | unix.CLONE_NEWNS | unix.CLONE_FS | garbage}},
	"clone3":                {unix.SYS_CLONE3, [4]uintptr{}},
	"add_key":               {unix.SYS_ADD_KEY, [4]uintptr{}},
	"keyctl":                {unix.SYS_KEYCTL, [4]uintptr{1 << 20}},
	"request_key":           {unix.SYS_REQUEST_KEY, [4]uintptr{}},
	"chmod":                 {unix.SYS_CHMOD, [4]uintptr{0, 0o755}},
	"chmod u+s":             {unix.SYS_CHMOD, [4]uintptr{0, 0o4755}},
	"fchmod g+s":            {unix.SYS_FCHMOD, [4]uintptr{noFD, 0o2755}},
	"fchmodat u+s":          {unix.SYS_FCHMODAT, [4]uintptr{noFD, 0, 0o4755}},
	"fchmodat2 u+s":         {unix.SYS_FCHMODAT2, [4]uintptr{noFD, 0, 0o4755}},
	"mknod u+s":             {unix.SYS_MKNOD, [4]uintptr{0, unix.S_IFREG | 0o4755}},
	"mknodat u+s":           {unix.SYS_MKNODAT, [4]uintptr{noFD, 0, unix.S_IFREG | 0o4755}},
	"creat u+s":             {unix.SYS_CREAT, [4]uintptr{0, 0o4755}},
	"open, garbage":         {unix.SYS_OPEN, [4]uintptr{0, unix.O_RDONLY, 0o4755}},
	"open u+s":              {unix.SYS_OPEN, [4]uintptr{0, unix.O_CREAT | unix.O_RDWR, 0o4755}},
	"openat u+s":            {unix.SYS_OPENAT, [4]uintptr{noFD, 0, unix.O_CREAT | unix.O_RDWR, 0o4755}},
	"openat tmpfile g+s":    {unix.SYS_OPENAT, [4]uintptr{noFD, 0, unix.O_TMPFILE | unix.O_RDWR, 0o2755}},
	"openat":                {unix.SYS_OPENAT, [4]uintptr{noFD, 0, unix.O_CREAT | unix.O_RDWR, 0o755}},
	"openat2":               {unix.SYS_OPENAT2, [4]uintptr{noFD}},
}

// runProbes returns the error number of each probe, 0 for success.
func runProbes() map[string]syscall.Errno {
	outcomes := make(map[string]syscall.Errno)
	for name, p := range probes {
		_, _, e := unix.RawSyscall6(p.number, p.args[0], p.args[1], p.args[2], p.args[3], 0, 0)
		outcomes[name] = e
	}
	return outcomes
}

// probeDenied lists by mode the probes that must fail; all fail with EPERM, but
// getpeername with ENOTCONN, openat2 and clone3 with ENOSYS. The others must end as without a filter.
var probeDenied = map[Mode][]string{
	Restricted: {
		"socket inet", "socket inet6", "socket netlink", "socket vsock", "socket vsock, garbage",
		"socketpair inet", "socketpair vsock", "connect", "accept", "accept4", "bind", "listen", "getpeername",
		"getsockname", "shutdown", "sendto", "sendmmsg", "recvmmsg", "getsockopt", "setsockopt",
		"ptrace", "process_vm_readv", "process_vm_writev", "io_uring_setup", "io_uring_enter", "io_uring_register",
		"add_key", "keyctl", "request_key", "unshare cgroup", "clone cgroup", "clone cgroup, garbage", "clone3",
	},
	Proxy: {
		"socket unix", "socket unix, garbage", "socket netlink", "socket vsock", "socket vsock, garbage",
		"socketpair datagrams", "socketpair raw", "socketpair inet", "socketpair vsock",
		"ptrace", "process_vm_readv", "process_vm_writev", "io_uring_setup", "io_uring_enter", "io_uring_register",
		"add_key", "keyctl", "request_key", "unshare cgroup", "clone cgroup", "clone cgroup, garbage", "clone3",
	},
	ProxyUnix: {
		"socket netlink", "socket vsock", "socket vsock, garbage", "socketpair inet", "socketpair vsock",
		"ptrace", "process_vm_readv", "process_vm_writev", "io_uring_setup", "io_uring_enter", "io_uring_register",
		"add_key", "keyctl", "request_key", "unshare cgroup", "clone cgroup", "clone cgroup, garbage", "clone3",
	},
	Open: {
		"socket vsock", "socket vsock, garbage", "socketpair vsock",
		"io_uring_setup", "io_uring_enter", "io_uring_register",
		"add_key", "keyctl", "request_key", "unshare cgroup", "clone cgroup", "clone cgroup, garbage", "clone3",
	},
	SetID: {
		"chmod u+s", "fchmod g+s", "fchmodat u+s", "fchmodat2 u+s", "mknod u+s", "mknodat u+s", "creat u+s",
		"open u+s", "openat u+s", "openat tmpfile g+s", "openat2",
	},
}

// needFilters checks for the newest action that the programs use; kernels
// have it since 4.14.
func needFilters(t *testing.T) {
	t.Helper()
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if e != 0 {
		need.CannotRun(t, "this kernel has no filters that kill a process: %v", e)
	}
}

func TestKernelEnforces(t *testing.T) {
	needFilters(t)
	plain := probeUnder(t, noFilter)
	for _, mode := range allModes {
		t.Run(mode.String(), func(t *testing.T) {
			filtered := probeUnder(t, mode.String())
			for name, got := range filtered {
				want := plain[name]
				if slices.Contains(probeDenied[mode], name) {
					want = unix.EPERM
					switch name {
					case "getpeername":
						want = unix.ENOTCONN
					case "openat2", "clone3":
						want = unix.ENOSYS
					}
				}
				if got != want {
					t.Errorf("%s: %s (%v), want %s", name, unix.ErrnoName(got), got, unix.ErrnoName(want))
				}
			}
		})
	}
	if e := plain["socket unix"]; e != 0 {
		t.Errorf("socket unix fails without a filter: %v", e)
	}
	for _, name := range slices.Concat(probeDenied[Restricted], probeDenied[Proxy], probeDenied[SetID]) { // the others deny no more
		if plain[name] == unix.EPERM {
			need.CannotRun(t, "%s fails with EPERM here without a filter too, so it shows nothing", name)
		}
	}
}

func probeUnder(t *testing.T, mode string) map[string]syscall.Errno {
	t.Helper()
	cmd := helperCommand(t, taskProbe+" "+mode)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helper under %s: %v: %s", mode, err, stderr.String())
	}
	var outcomes map[string]syscall.Errno
	if err := json.Unmarshal(out, &outcomes); err != nil {
		t.Fatalf("helper under %s says %q: %v", mode, out, err)
	}
	if len(outcomes) != len(probes) {
		t.Fatalf("helper under %s reports %d of %d probes", mode, len(outcomes), len(probes))
	}
	return outcomes
}

func helperCommand(t *testing.T, task string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+task, "GORACE=atexit_sleep_ms=0") // instead of 1 s
	return cmd
}

// Calls through int 0x80 carry the numbers of i386: 41 is dup there, and 102
// opens sockets. The program is executed, so the filter must also survive an
// exec.
func TestKernelKillsInt80(t *testing.T) {
	needFilters(t)
	program := writeInt80(t)
	if err := helperCommand(t, taskExec+" "+noFilter, program).Run(); err != nil {
		need.CannotRun(t, "int 0x80 does not work here without a filter either: %v", err)
	}
	for _, mode := range allModes {
		err := helperCommand(t, taskExec+" "+mode.String(), program).Run()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			t.Errorf("%v: int 0x80 ends with %v, want SIGSYS", mode, err)
			continue
		}
		if status := exit.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != unix.SIGSYS {
			t.Errorf("%v: int 0x80 ends with %v, want SIGSYS", mode, err)
		}
	}
}

// bubblewrap takes the bytes of Encode, and reports the kill as 128 + SIGSYS.
func TestBubblewrapLoadsProgram(t *testing.T) {
	needFilters(t)
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		need.CannotRun(t, "%v", err)
	}
	target := writeInt80(t)
	run := func(program []byte) (int, string) {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		if _, err := write.Write(program); err != nil { // less than a pipe holds
			t.Fatal(err)
		}
		write.Close()
		args := []string{"--unshare-user", "--unshare-pid", "--ro-bind", "/", "/"}
		if program != nil {
			args = append(args, "--seccomp", "3")
		}
		cmd := exec.CommandContext(t.Context(), bwrap, append(args, target)...)
		cmd.ExtraFiles = []*os.File{read}
		out, err := cmd.CombinedOutput()
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if code, out := run(nil); code != 0 {
		need.CannotRun(t, "bubblewrap without a filter exits %d: %s", code, out)
	}
	program, err := Program(Restricted, AMD64)
	if err != nil {
		t.Fatal(err)
	}
	if code, out := run(Encode(program)); code != 128+int(unix.SIGSYS) {
		t.Errorf("int 0x80 under bubblewrap exits %d, want 159: %s", code, out)
	}
}

// writeInt80 writes a static program that calls getpid through int 0x80 and, if it
// survives, exits 0.
func writeInt80(t *testing.T) string {
	t.Helper()
	code := []byte{
		0xb8, 20, 0, 0, 0, // mov eax, 20: getpid on i386
		0xcd, 0x80, // int 0x80
		0xb8, 60, 0, 0, 0, // mov eax, 60: exit on x86-64
		0x31, 0xff, // xor edi, edi
		0x0f, 0x05, // syscall
	}
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(code))
	var file bytes.Buffer
	file.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9)) // 64 bits, little-endian
	for _, field := range []any{
		uint16(2), uint16(0x3e), uint32(1), // executable, x86-64, version
		uint64(base + headers), uint64(64), uint64(0), // entry, program headers, no sections
		uint32(0), uint16(64), uint16(56), uint16(1), // flags, sizes of both headers, one of the latter
		uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), // load, readable and executable, from the start
		uint64(base), uint64(base), size, size, uint64(0x1000),
	} {
		if err := binary.Write(&file, binary.LittleEndian, field); err != nil {
			t.Fatal(err)
		}
	}
	file.Write(code)
	name := filepath.Join(t.TempDir(), "int80")
	if err := os.WriteFile(name, file.Bytes(), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}
