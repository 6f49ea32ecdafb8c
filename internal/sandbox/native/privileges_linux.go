package native

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// dropPrivileges gives up all rights and loads the first filter, and checks that both had their effect.
func (c *compiler) dropPrivileges() {
	c.step(stepPrivileges, "")
	c.call(unix.SYS_UMASK, c.umask.content())
	c.dropBoundingSet()
	c.step(stepPrivileges, "")
	c.call(unix.SYS_PRCTL, number(unix.PR_CAP_AMBIENT), number(unix.PR_CAP_AMBIENT_CLEAR_ALL))
	header := c.constant(string(binary.LittleEndian.AppendUint32(nil, unix.LINUX_CAPABILITY_VERSION_3)) + "\x00\x00\x00\x00")
	c.call(unix.SYS_CAPSET, header, c.numbers(0, 0, 0))
	c.call(unix.SYS_PRCTL, number(unix.PR_SET_NO_NEW_PRIVS), number(1))
	c.call(unix.SYS_PRCTL, number(unix.PR_SET_DUMPABLE), number(0)) // no process inside can look into this one
	sets, result := c.room(24), c.cell()
	for i := range 3 {
		c.call(callSet, everything).into(sets.at(8 * i))
	}
	c.call(unix.SYS_CAPGET, header, sets.address())
	c.step(stepCheckCapabilities, "")
	for i := range 3 {
		c.require(sets.at(8*i).content(), everything, number(0), int(unix.EPERM))
	}
	c.step(stepCheckPrivileges, "")
	c.call(unix.SYS_PRCTL, number(unix.PR_GET_NO_NEW_PRIVS)).into(result)
	c.require(result.content(), everything, number(1), int(unix.EPERM))
	c.call(unix.SYS_PRCTL, number(unix.PR_GET_DUMPABLE)).into(result)
	c.require(result.content(), everything, number(0), int(unix.EPERM))
	c.loadFilter(c.order.Filter)
	c.step(stepCheckFilter, "")
	const filtered = 2 // SECCOMP_MODE_FILTER
	c.call(unix.SYS_PRCTL, number(unix.PR_GET_SECCOMP)).into(result)
	c.require(result.content(), everything, number(filtered), int(unix.EPERM))
}

// dropBoundingSet makes sure that no capability can be gained.
func (c *compiler) dropBoundingSet() {
	again, done := c.label(), c.label()
	capability, left := c.cell(), c.cell()
	c.place(again)
	c.call(unix.SYS_PRCTL, number(unix.PR_CAPBSET_DROP), capability.content())
	c.step(stepCheckBounding, "")
	c.call(unix.SYS_PRCTL, number(unix.PR_CAPBSET_READ), capability.content()).into(left)
	c.require(left.content(), everything, number(0), int(unix.EPERM))
	c.call(callAdd, capability.content(), number(1)).into(capability)
	c.jumpEqual(capability.content(), everything, number(c.order.LastCapability+1), done)
	c.jump(again)
	c.place(done)
}

// loadFilter loads a system call filter; an empty one: none.
func (c *compiler) loadFilter(filter []byte) {
	if len(filter) == 0 {
		return
	}
	c.step(stepFilter, "")
	program := c.room(16) // struct sock_fprog
	binary.LittleEndian.PutUint16(c.data[program:], uint16(len(filter)/unix.SizeofSockFilter))
	c.pointTo(program.at(8), c.constant(string(filter)))
	c.call(unix.SYS_SECCOMP, number(unix.SECCOMP_SET_MODE_FILTER), number(0), program.address())
}
