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
	c.call(unix.SYS_PRCTL, number(unix.PR_SET_DUMPABLE), number(0)) // no process inside can look into this one, which has the files of the machine
	c.call(unix.SYS_SETITIMER, number(unix.ITIMER_REAL), c.numbers(0, 0, dialSeconds, 0), number(0))
	if owned {
		c.call(unix.SYS_SETNS, number(OwnerFile), number(unix.CLONE_NEWUSER))
	}
	c.call(unix.SYS_SETNS, number(NetworkFile), number(unix.CLONE_NEWNET))
	c.step(stepConnect, to.String())
	address := socketAddress(to)
	socket := c.cell()
	c.listeners = append(c.listeners, socket)
	c.call(unix.SYS_SOCKET, number(int(binary.NativeEndian.Uint16(address))), number(unix.SOCK_STREAM|unix.SOCK_CLOEXEC), number(0)).into(socket)
	c.call(unix.SYS_CONNECT, socket.content(), c.constant(string(address)), number(len(address)))
	c.prepareReport()()
	c.call(unix.SYS_EXIT_GROUP, number(0))
	return c.Script
}

// socketAddress returns a struct sockaddr_in or sockaddr_in6, of that many bytes.
func socketAddress(to netip.AddrPort) []byte {
	b := make([]byte, unix.SizeofSockaddrInet6)
	family, at := unix.AF_INET6, 8 // behind the flow
	if to.Addr().Is4() {
		b, family, at = b[:unix.SizeofSockaddrInet4], unix.AF_INET, 4
	}
	binary.NativeEndian.PutUint16(b, uint16(family))
	binary.BigEndian.PutUint16(b[2:], to.Port())
	copy(b[at:], to.Addr().AsSlice())
	return b
}
