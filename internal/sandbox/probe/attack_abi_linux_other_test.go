//go:build linux && !amd64

package probe

import "golang.org/x/sys/unix"

var abiAttacks = []probe{{"x32", "getpid", func([]string) error { return unix.ENOSYS }}}
