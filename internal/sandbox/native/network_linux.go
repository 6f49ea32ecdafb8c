package native

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/sandbox"
)

// backlog is how many connections of a command may wait to be accepted.
const backlog = 128

// network prepares a network of the sandbox's own, and opens the listeners of the server in it. A command without
// sockets cannot see whether its loopback interface is up.
func (c *compiler) network() {
	if !c.order.Plan.Namespaces.Net || c.order.Plan.Filter == sandbox.FilterRestricted {
		return
	}
	c.step(stepNetwork, "")
	fd := c.cell()
	c.call(unix.SYS_SOCKET, number(unix.AF_UNIX), number(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), number(0)).into(fd)
	request := make([]byte, 40) // struct ifreq
	copy(request, "lo")
	binary.LittleEndian.PutUint16(request[16:], unix.IFF_UP|unix.IFF_RUNNING)
	c.call(unix.SYS_IOCTL, fd.content(), number(unix.SIOCSIFFLAGS), c.bytes(request).address())
	c.close(fd)
	for _, port := range c.order.Ports {
		c.listen(port)
	}
}

// listen opens a listener on loopback. The port is free, because no process has used this network before.
func (c *compiler) listen(port int) {
	c.step(stepListen, "")
	own := c.cell()
	c.call(unix.SYS_SOCKET, number(unix.AF_INET), number(unix.SOCK_STREAM|unix.SOCK_CLOEXEC), number(0)).into(own)
	c.listeners = append(c.listeners, own)
	address := []byte{unix.AF_INET, 0, byte(port >> 8), byte(port), 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	c.call(unix.SYS_BIND, own.content(), c.constant(string(address)), number(len(address)))
	c.call(unix.SYS_LISTEN, own.content(), number(backlog))
	if c.command.Outside == 0 {
		return
	}
	cookie, size, same, different := c.cell(), c.bytes([]byte{8, 0, 0, 0}), c.label(), c.label()
	c.call(unix.SYS_GETSOCKOPT, own.content(), number(unix.SOL_SOCKET), number(unix.SO_NETNS_COOKIE), cookie.address(), size.address())
	c.step(stepOwnNetwork, "")
	c.jumpEqual(cookie.content(), everything, number(c.command.Outside), same)
	c.jump(different)
	c.place(same)
	c.call(callFail, number(int(unix.EEXIST)))
	c.place(different)
}
