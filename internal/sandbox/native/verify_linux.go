package native

import (
	"path"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// signBit distinguishes errors from other results.
var signBit = number(uint64(1) << 63)

// verify makes sure that each mount is as planned, as the command will see it: by its path, with its rights.
func (c *compiler) verify() {
	for _, m := range c.command.Mounts {
		c.verifyMount(m)
	}
}

func (c *compiler) verifyMount(m stage.Mount) {
	c.step(stepFind, m.Path)
	fd, opened, done := c.cell(), c.label(), c.label()
	if !m.Blockable {
		c.openPathInto(fd, here, m.Path)
	} else {
		blocked := c.label()
		c.openPathInto(fd, here, m.Path).mayFail()
		c.jumpEqual(fd.content(), signBit, number(0), opened)
		c.jumpEqual(fd.content(), everything, number(-int64(unix.EACCES)), blocked)
		c.openPathInto(fd, here, m.Path) // again, to fail with this error; if it succeeds now, the mount is checked as any other
		c.later = append(c.later, func() {
			c.place(blocked)
			c.requireForeign(m.Path)
			c.jump(done)
		})
	}
	c.place(opened)
	c.lookAt(fd.content())
	c.call(unix.SYS_FSTATFS, fd.content(), c.statfs.address())
	c.close(fd)
	c.step(stepCheckMounted, m.Path)
	root := number(uint(unix.STATX_ATTR_MOUNT_ROOT))
	c.require(c.statx.at(statxAttributes).content(), root, root, int(unix.EINVAL))
	if m.ReadOnly {
		c.step(stepCheckReadOnly, m.Path)
		c.require(c.statfs.at(statfsFlags).content(), number(unix.ST_RDONLY), number(unix.ST_RDONLY), int(unix.EPERM))
	}
	switch m.Kind {
	case stage.MountBind:
		c.step(stepCheckSame, m.Path)
		c.requireSame(m)
	case stage.MountMask, stage.MountDev:
		c.step(stepCheckMemory, m.Path)
		c.require(c.statfs.at(statfsType).content(), everything, number(unix.TMPFS_MAGIC), int(unix.ESTALE))
	case stage.MountProc:
		c.step(stepCheckProcfs, m.Path)
		c.require(c.statfs.at(statfsType).content(), everything, number(unix.PROC_SUPER_MAGIC), int(unix.ESTALE))
	}
	c.place(done)
}

// requireForeign fails unless a directory of another user blocks the way to a path: then the command cannot get there,
// and cannot change the mode of that directory.
func (c *compiler) requireForeign(name string) {
	c.step(stepFind, name)
	fd, found := c.cell(), c.label()
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if dir == "/" {
			c.openPathInto(fd, here, dir)
			break
		}
		up := c.label()
		c.openPathInto(fd, here, dir).mayFail()
		c.jumpEqual(fd.content(), everything, number(-int64(unix.EACCES)), up)
		c.jumpEqual(fd.content(), signBit, number(0), found)
		c.openPathInto(fd, here, dir) // again, to fail with this error
		c.jump(found)
		c.place(up)
	}
	c.place(found)
	c.lookAt(fd.content())
	c.close(fd)
	own, foreign := c.label(), c.label()
	c.jumpEqual(c.statx.at(statxUser).content(), number(uint64(0xffffffff)<<32), number(uint64(c.order.UID)<<32), own)
	c.jump(foreign)
	c.place(own)
	c.call(callFail, number(int(unix.EACCES)))
	c.place(foreign)
}
