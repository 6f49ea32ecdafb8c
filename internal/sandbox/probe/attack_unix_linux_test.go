package probe

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

var unixAttacks = []probe{
	{"unixpair", "", unixPair},
	{"connect-abstract", "NAME", func(a []string) error { return connectUnix("@" + a[0]) }},
	{"sendmsg-unix", "PATH", sendmsgUnix},
	{"bind-unix", "PATH", bindUnix},
}

// sendmsgUnix sends a datagram to a path, which a filter of connect does not
// see.
func sendmsgUnix(args []string) error {
	fd, addr, err := unixSocket(args[0], unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendmsg(fd, []byte("p"), nil, addr, unix.MSG_DONTWAIT)
}

// bindUnix makes a socket at a path, and removes it.
func bindUnix(args []string) error {
	fd, addr, err := unixSocket(args[0], unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, addr); err != nil {
		return err
	}
	return at("unlink", unix.Unlink(args[0]))
}

// A pairCall is a call on one end of a socketpair; one byte waits there to be read.
type pairCall struct {
	name string
	run  func(fd uintptr) unix.Errno
}

var pairCalls = []pairCall{
	{"read", func(fd uintptr) unix.Errno {
		var b [1]byte
		return raw(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&b)), 1)
	}},
	{"write", func(fd uintptr) unix.Errno {
		b := [1]byte{'p'}
		return raw(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&b)), 1)
	}},
	{"sendmsg", func(fd uintptr) unix.Errno {
		m := oneByte()
		return raw(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&m.hdr)), unix.MSG_DONTWAIT)
	}},
	{"recv", func(fd uintptr) unix.Errno {
		var b [1]byte
		return raw(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b)), 1, unix.MSG_DONTWAIT)
	}},
	{"recvmsg", func(fd uintptr) unix.Errno {
		m := oneByte()
		return raw(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&m.hdr)), unix.MSG_DONTWAIT)
	}},
	{"send", func(fd uintptr) unix.Errno {
		b := [1]byte{'p'}
		return raw(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&b)), 1, unix.MSG_DONTWAIT)
	}},
	{"getsockopt", func(fd uintptr) unix.Errno {
		var value, size int32 = 0, 4
		return raw(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_TYPE,
			uintptr(unsafe.Pointer(&value)), uintptr(unsafe.Pointer(&size)))
	}},
	{"setsockopt", func(fd uintptr) unix.Errno {
		value := int32(1)
		return raw(unix.SYS_SETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PASSCRED, uintptr(unsafe.Pointer(&value)), 4)
	}},
	{"getsockname", func(fd uintptr) unix.Errno { return nameOf(unix.SYS_GETSOCKNAME, fd) }},
	{"getpeername", func(fd uintptr) unix.Errno { return nameOf(unix.SYS_GETPEERNAME, fd) }},
	{"shutdown", func(fd uintptr) unix.Errno { return raw(unix.SYS_SHUTDOWN, fd, unix.SHUT_RDWR) }},
	{"sendmmsg", func(fd uintptr) unix.Errno {
		m := oneByte()
		return raw(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&m.hdr)), 1, unix.MSG_DONTWAIT)
	}},
	{"recvmmsg", func(fd uintptr) unix.Errno {
		m := oneByte()
		return raw(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&m.hdr)), 1, unix.MSG_DONTWAIT)
	}},
}

// unixPair prints the result of each call on a new socketpair.
func unixPair([]string) error {
	for _, c := range pairCalls {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return at("socketpair", err)
		}
		if _, err := unix.Write(pair[1], []byte("p")); err != nil {
			closeAll(pair[:]...)
			return at("write", err)
		}
		errno := c.run(uintptr(pair[0]))
		closeAll(pair[:]...)
		fmt.Printf("%s: %s\n", c.name, outcome(errnoOr(errno)))
	}
	return errQuiet
}

// A message is a header for sendmsg, or for sendmmsg with the count behind it,
// and the memory that it points to.
type message struct {
	hdr unix.Msghdr
	_   uint32 // the count
	iov unix.Iovec
	b   [1]byte
}

// oneByte returns a message of one byte, to send or to receive.
func oneByte() *message {
	m := &message{}
	m.iov.Base = &m.b[0]
	m.iov.SetLen(1)
	m.hdr.Iov = &m.iov
	m.hdr.SetIovlen(1)
	return m
}

func nameOf(nr, fd uintptr) unix.Errno {
	var addr unix.RawSockaddrAny
	size := uint32(unsafe.Sizeof(addr))
	return raw(nr, fd, uintptr(unsafe.Pointer(&addr)), uintptr(unsafe.Pointer(&size)))
}
