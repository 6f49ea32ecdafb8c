package probe

import "golang.org/x/sys/unix"

var abiAttacks = []probe{{"x32", "getpid", x32}}

// x32 makes a call through the interface of 64-bit programs with 32-bit
// pointers.
func x32(args []string) error {
	const x32Bit = 0x40000000
	if args[0] != "getpid" {
		return errUsage
	}
	_, _, errno := unix.RawSyscall(x32Bit|unix.SYS_GETPID, 0, 0, 0)
	return errnoOr(errno)
}
