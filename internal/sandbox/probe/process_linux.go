package probe

import (
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

var processProbes = []probe{
	{"ptrace-child", "", ptraceChild},
	{"kill", "PID SIG", kill},
	{"io-uring-setup", "", ioUringSetup},
}

// ptraceChild attaches to a child.
func ptraceChild([]string) error {
	pid, err := sleeper()
	if err != nil {
		return err
	}
	attached := unix.PtraceAttach(pid)
	if err := end(pid); err != nil {
		return at("wait4", err)
	}
	return attached
}

// signalNumber reads "TERM", "SIGTERM" or "15".
func signalNumber(text string) (unix.Signal, error) {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && n <= 64 {
		return unix.Signal(n), nil
	}
	if sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG")); sig != 0 {
		return sig, nil
	}
	return 0, errUsage
}

func kill(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return errUsage
	}
	sig, err := signalNumber(args[1])
	if err != nil {
		return err
	}
	return unix.Kill(pid, sig)
}

func ioUringSetup([]string) error {
	var params [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}
