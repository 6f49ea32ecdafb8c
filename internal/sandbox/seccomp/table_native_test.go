//go:build linux && (amd64 || arm64)

package seccomp

import (
	"maps"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Compare the table of the architecture on which the test runs with package unix.
func TestNativeTableAgreesWithSys(t *testing.T) {
	want := map[string]uint32{
		"accept":            unix.SYS_ACCEPT,
		"accept4":           unix.SYS_ACCEPT4,
		"add_key":           unix.SYS_ADD_KEY,
		"bind":              unix.SYS_BIND,
		"clone":             unix.SYS_CLONE,
		"clone3":            unix.SYS_CLONE3,
		"connect":           unix.SYS_CONNECT,
		"fchmod":            unix.SYS_FCHMOD,
		"fchmodat":          unix.SYS_FCHMODAT,
		"fchmodat2":         unix.SYS_FCHMODAT2,
		"getpeername":       unix.SYS_GETPEERNAME,
		"getsockname":       unix.SYS_GETSOCKNAME,
		"getsockopt":        unix.SYS_GETSOCKOPT,
		"io_uring_enter":    unix.SYS_IO_URING_ENTER,
		"io_uring_register": unix.SYS_IO_URING_REGISTER,
		"io_uring_setup":    unix.SYS_IO_URING_SETUP,
		"keyctl":            unix.SYS_KEYCTL,
		"listen":            unix.SYS_LISTEN,
		"mknodat":           unix.SYS_MKNODAT,
		"openat":            unix.SYS_OPENAT,
		"openat2":           unix.SYS_OPENAT2,
		"process_vm_readv":  unix.SYS_PROCESS_VM_READV,
		"process_vm_writev": unix.SYS_PROCESS_VM_WRITEV,
		"ptrace":            unix.SYS_PTRACE,
		"recvmmsg":          unix.SYS_RECVMMSG,
		"request_key":       unix.SYS_REQUEST_KEY,
		"sendmmsg":          unix.SYS_SENDMMSG,
		"sendto":            unix.SYS_SENDTO,
		"setsockopt":        unix.SYS_SETSOCKOPT,
		"shutdown":          unix.SYS_SHUTDOWN,
		"socket":            unix.SYS_SOCKET,
		"socketpair":        unix.SYS_SOCKETPAIR,
		"unshare":           unix.SYS_UNSHARE,
	}
	maps.Copy(want, oldNumbers)
	if got := syscallTables[Arch(runtime.GOARCH)].numbers; !maps.Equal(got, want) {
		t.Errorf("table is %v, want %v", got, want)
	}
}

func TestConstantsAgreeWithSys(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint32
	}{
		{"AUDIT_ARCH_X86_64", syscallTables[AMD64].audit, unix.AUDIT_ARCH_X86_64},
		{"AUDIT_ARCH_AARCH64", syscallTables[ARM64].audit, unix.AUDIT_ARCH_AARCH64},
		{"SECCOMP_RET_KILL_PROCESS", retKillProcess, unix.SECCOMP_RET_KILL_PROCESS},
		{"SECCOMP_RET_ERRNO", retErrno, unix.SECCOMP_RET_ERRNO},
		{"SECCOMP_RET_ALLOW", retAllow, unix.SECCOMP_RET_ALLOW},
		{"EPERM", uint32(ePerm), uint32(unix.EPERM)},
		{"ENOSYS", uint32(eNoSys), uint32(unix.ENOSYS)},
		{"ENOTCONN", uint32(eNotConn), uint32(unix.ENOTCONN)},
		{"AF_UNIX", uint32(afUnix), unix.AF_UNIX},
		{"AF_INET", uint32(afInet), unix.AF_INET},
		{"AF_INET6", uint32(afInet6), unix.AF_INET6},
		{"AF_VSOCK", uint32(afVsock), unix.AF_VSOCK},
		{"S_ISUID, S_ISGID", setIDBits, unix.S_ISUID | unix.S_ISGID},
		{"CLONE_NEWCGROUP", newCgroup, unix.CLONE_NEWCGROUP},
		{"O_CREAT, O_TMPFILE", makesFile, (unix.O_CREAT | unix.O_TMPFILE) &^ unix.O_DIRECTORY},
	} {
		if c.got != c.want {
			t.Errorf("%s is %#x here, %#x in x/sys", c.name, c.got, c.want)
		}
	}
}
