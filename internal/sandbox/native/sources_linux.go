package native

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// Attributes of mounts.
const (
	harmless = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	readOnly = harmless | unix.MOUNT_ATTR_RDONLY
)

// sources copies the mounts of the host that the plan shows. Later the root may be read-only, and so would be every
// copy.
func (c *compiler) sources() error {
	for _, op := range c.order.Plan.Ops {
		var err error
		switch op.Kind {
		case sandbox.OpBindRO:
			err = c.source(op.Path, op.Path, readOnly)
		case sandbox.OpBindRW, sandbox.OpPin:
			err = c.source(op.Path, op.Path, harmless)
		case sandbox.OpMaskFile:
			err = c.source(c.maskSource(op), op.Path, readOnly)
		case sandbox.OpCover, sandbox.OpDev:
			c.deviceSources()
		case sandbox.OpProc:
			c.step(stepProcfs, "")
			c.procfs = c.fileSystem("proc", harmless|unix.MOUNT_ATTR_NOEXEC)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) maskSource(op sandbox.Op) string {
	if sandbox.UnixMode(op.Mode) == 0 {
		return c.order.Hidden
	}
	return c.order.Empty
}

// source copies the mount at a path of the host, which has to be what was planned for the path inside.
func (c *compiler) source(path, inside string, attributes uint64) error {
	if path == "/" || c.trees[path] != 0 {
		return nil
	}
	want, ok := c.binds[inside]
	if !ok || want.Kind != stage.MountBind {
		return fmt.Errorf("%w: it is not known what is at %s", errPlan, inside)
	}
	c.step(stepSource, path)
	fd := c.openPath(here, path)
	c.lookAt(fd.content())
	c.step(stepSame, path)
	c.requireSame(want)
	c.step(stepSource, path)
	tree := c.copyTree(fd.content())
	c.setAttributes(tree.content(), attributes, true)
	c.close(fd)
	c.trees[path] = tree
	return nil
}

// deviceSources copies the mounts of the devices, and that of the terminal.
func (c *compiler) deviceSources() {
	if len(c.devices) > 0 {
		return
	}
	copyDevice := func(fd cell, attributes uint64) cell {
		tree := c.copyTree(fd.content())
		c.setAttributes(tree.content(), attributes, true)
		c.close(fd)
		return tree
	}
	for _, name := range sandbox.Devices {
		c.step(stepSource, "/dev/"+name)
		// Without a read-only mount, root could change the devices of the host.
		c.devices[name] = copyDevice(c.openPath(here, "/dev/"+name), unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_RDONLY)
	}
	if !c.command.TTY {
		return
	}
	c.step(stepTerminalSource, "")
	const longest = 64
	name, fd := c.room(longest+8), c.cell()
	c.call(unix.SYS_READLINKAT, here, c.text("/proc/self/fd/0"), name.address(), number(longest))
	how := c.numbers(unix.O_PATH|unix.O_CLOEXEC, 0, unix.RESOLVE_NO_SYMLINKS)
	c.call(unix.SYS_OPENAT2, here, name.address(), how, number(unix.SizeofOpenHow)).into(fd)
	c.console = copyDevice(fd, unix.MOUNT_ATTR_NOSUID)
}
