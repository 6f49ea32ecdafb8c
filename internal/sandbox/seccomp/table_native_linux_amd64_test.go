package seccomp

import "golang.org/x/sys/unix"

// oldNumbers are calls that newer architectures do not have.
var oldNumbers = map[string]uint32{
	"chmod": unix.SYS_CHMOD, "creat": unix.SYS_CREAT, "mknod": unix.SYS_MKNOD, "open": unix.SYS_OPEN,
}
