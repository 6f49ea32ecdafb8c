package probe

import (
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// abiProbes enter the same kernel through other system call interfaces, which
// have other numbers for the calls.
var abiProbes = []probe{{"int80", "getpid|socket", func(a []string) error { return int80(a[0]) }}}

// enter32 makes a 32-bit system call.
func enter32(nr, a, b, c uint32) int32

// int80 makes a call through the interface of 32-bit programs. A kernel without
// that interface causes a fault.
func int80(name string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		fault := recover()
		if _, ok := fault.(runtime.Error); ok {
			err = killedError(unix.SIGSEGV)
		} else if fault != nil {
			panic(fault)
		}
	}()
	const getpid, socket = 20, 359 // numbers of that interface
	switch name {
	case "getpid":
		return signed(enter32(getpid, 0, 0, 0))
	case "socket":
		fd := enter32(socket, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if fd < 0 {
			return signed(fd)
		}
		return unix.Close(int(fd))
	}
	return errUsage
}

// signed converts a result of the kernel: a negative one is an errno.
func signed(answer int32) error {
	if answer < 0 {
		return unix.Errno(-answer)
	}
	return nil
}
