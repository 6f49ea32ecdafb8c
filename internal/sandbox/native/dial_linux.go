package native

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The descriptors of a process that dials, besides those of the stage.
const (
	OwnerFile   = 8 // the user namespace that owns the network
	NetworkFile = 9
)

// dialSeconds is when a process that dials ends in any case.
const dialSeconds = 20

// Dial returns the script of a process that connects a socket in the network of NetworkFile, and sends it as a listener of a command. If the network belongs to
// another user namespace, owned is true, and the process enters that of OwnerFile first. It does nothing else there.
func Dial(owned bool, to netip.AddrPort) *Script {
	c := &compiler{Script: newScript()}
	c.step(stepEnter, "")
	c.call(unix.SYS_SETITIMER, number(unix.ITIMER_REAL), c.numbers(0, 0, dialSeconds, 0), number(0))
	if owned {
		c.call(unix.SYS_SETNS, number(OwnerFile), number(unix.CLONE_NEWUSER))
	}
	c.call(unix.SYS_SETNS, number(NetworkFile), number(unix.CLONE_NEWNET))
	c.step(stepConnect, to.String())
	family, address := unix.AF_INET, socketAddress(to)
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	socket := c.cell()
	c.listeners = append(c.listeners, socket)
	c.call(unix.SYS_SOCKET, number(family), number(unix.SOCK_STREAM|unix.SOCK_CLOEXEC), number(0)).into(socket)
	c.call(unix.SYS_CONNECT, socket.content(), c.constant(string(address)), number(len(address)))
	c.prepareReport()()
	c.call(unix.SYS_EXIT_GROUP, number(0))
	return c.Script
}

// socketAddress returns a struct sockaddr_in or sockaddr_in6.
func socketAddress(to netip.AddrPort) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 2), to.Port())
	if to.Addr().Is6() {
		binary.NativeEndian.PutUint16(b, unix.AF_INET6)
		b = append(b, 0, 0, 0, 0) // flow
		b = append(b, to.Addr().AsSlice()...)
		return append(b, 0, 0, 0, 0) // scope
	}
	binary.NativeEndian.PutUint16(b, unix.AF_INET)
	return append(append(b, to.Addr().AsSlice()...), make([]byte, 8)...)
}
