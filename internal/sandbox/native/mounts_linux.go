package native

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/sandbox"
)

// A region is a directory in memory that only this sandbox has, while names can be made in it.
type region struct {
	path string
	dir  cell            // a descriptor
	made map[string]bool // directories below
}

// mounts carries out the operations of the plan.
func (c *compiler) mounts() error {
	ops := c.order.Plan.Ops
	for i, op := range ops {
		var err error
		switch op.Kind {
		case sandbox.OpScratch, sandbox.OpBindRO, sandbox.OpBindRW, sandbox.OpPin:
			if op.Path == "/" {
				c.root(op.Kind)
			} else if op.Kind == sandbox.OpScratch {
				err = fmt.Errorf("%w: cannot do %v", errPlan, op)
			} else {
				c.bind(op.Path, op.Path, c.binds[op.Path].Directory)
			}
		case sandbox.OpDev:
			c.dev(op.Path)
		case sandbox.OpProc:
			c.proc(op.Path)
		case sandbox.OpFreeze:
			c.freeze(op.Path)
		case sandbox.OpDir:
			err = c.makeDir(op)
		case sandbox.OpSymlink:
			err = c.makeLink(op)
		case sandbox.OpMaskDir:
			sealed := i+1 < len(ops) && ops[i+1].Kind == sandbox.OpSeal && ops[i+1].Path == op.Path
			c.maskDir(op, sealed)
		case sandbox.OpMaskFile:
			c.maskWithFile(op)
		case sandbox.OpSeal:
			c.seal(op.Path)
		case sandbox.OpCover:
			c.cover(op.Path)
		case sandbox.OpPlaceholder:
		default:
			err = fmt.Errorf("%w: cannot do %v", errPlan, op)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// root makes the root directory. Without scratch, it is the copy of the host's mounts that this process has.
func (c *compiler) root(kind sandbox.OpKind) {
	c.step(stepRoot, "")
	switch kind {
	case sandbox.OpBindRO:
		c.call(unix.SYS_MOUNT_SETATTR, here, c.text("/"), number(unix.AT_RECURSIVE), c.numbers(readOnly, 0, 0, 0), number(mountAttrSize))
		return
	case sandbox.OpBindRW, sandbox.OpPin:
		c.call(unix.SYS_MOUNT_SETATTR, here, c.text("/"), number(unix.AT_RECURSIVE), c.numbers(harmless, 0, 0, 0), number(mountAttrSize))
		return
	}
	fresh := c.fileSystem("tmpfs", harmless, "mode", "0755")
	c.call(unix.SYS_MOVE_MOUNT, fresh.content(), c.text(""), here, c.text("/"), number(unix.MOVE_MOUNT_F_EMPTY_PATH))
	c.call(unix.SYS_FCHDIR, fresh.content())
	c.call(unix.SYS_PIVOT_ROOT, c.text("."), c.text("."))
	c.call(unix.SYS_UMOUNT2, c.text("."), number(unix.MNT_DETACH)) // the host's root, which lies above the new one
	c.call(unix.SYS_CHDIR, c.text("/"))
	c.regions = append(c.regions, region{path: "/", dir: fresh, made: make(map[string]bool)})
}

// below reports whether a path lies in a directory.
func below(name, dir string) bool {
	return dir == "/" && name != "/" || strings.HasPrefix(name, dir) && len(name) > len(dir) && name[len(dir)] == '/'
}

// around returns the region in which a path is to be made, and the path relative to it; nil: the path is one of the
// host, or in a mount of the host, and exists.
func (c *compiler) around(name string) (r *region, relative string) {
	for i := range c.regions {
		if below(name, c.regions[i].path) {
			r = &c.regions[i]
		}
	}
	if r == nil {
		return nil, ""
	}
	for at := path.Dir(name); at != r.path; at = path.Dir(at) {
		if c.shown(at) {
			return nil, ""
		}
	}
	return r, strings.TrimPrefix(name[len(r.path):], "/")
}

// shown reports whether the plan mounts something at a path.
func (c *compiler) shown(at string) bool {
	return c.trees[at] != 0 || at == "/dev" || at == "/proc"
}

// makeParents makes the missing directories above a path in a region.
func (c *compiler) makeParents(r *region, relative string) {
	for i, b := range relative {
		if b == '/' {
			c.makeOnce(r, relative[:i], 0o755)
		}
	}
}

func (c *compiler) makeOnce(r *region, relative string, mode uint) {
	if r.made[relative] {
		return
	}
	r.made[relative] = true
	c.call(unix.SYS_MKDIRAT, r.dir.content(), c.text(relative), number(mode))
}

// mountPoint opens a path to mount on. In a region it makes the path first.
func (c *compiler) mountPoint(kind stepKind, name string, directory bool) (fd cell) {
	c.step(kind, name)
	r, relative := c.around(name)
	if r == nil {
		return c.openPath(here, name)
	}
	c.makeParents(r, relative)
	switch {
	case directory:
		c.makeOnce(r, relative, 0o755)
	case !r.made[relative]:
		r.made[relative] = true
		c.call(unix.SYS_MKNODAT, r.dir.content(), c.text(relative), number(unix.S_IFREG|0o444), number(0))
	}
	return c.openPath(r.dir.content(), relative)
}

// bind mounts the copy of a mount of the host.
func (c *compiler) bind(source, at string, directory bool) {
	on := c.mountPoint(stepBind, at, directory)
	tree := c.trees[source]
	c.attach(tree.content(), on.content())
	c.close(tree)
	c.close(on)
}

// dev makes a new /dev, with the same content as that of bubblewrap.
func (c *compiler) dev(at string) {
	c.step(stepDev, at)
	dev := c.fileSystem("tmpfs", harmless, "mode", "0755")
	dir := dev.content()
	for _, name := range sandbox.Devices {
		c.call(unix.SYS_MKNODAT, dir, c.text(name), number(unix.S_IFREG|0o444), number(0))
	}
	for _, link := range [][2]string{
		{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"},
		{"/proc/kcore", "core"}, {"pts/ptmx", "ptmx"},
	} {
		c.call(unix.SYS_SYMLINKAT, c.text(link[0]), dir, c.text(link[1]))
	}
	for _, name := range []string{"shm", "pts"} {
		c.call(unix.SYS_MKDIRAT, dir, c.text(name), number(0o755))
	}
	if c.console != 0 {
		c.call(unix.SYS_MKNODAT, dir, c.text("console"), number(unix.S_IFREG|0o444), number(0))
	}
	on := c.mountPoint(stepDev, at, true)
	c.attach(dir, on.content())
	c.close(on)
	attach := func(tree cell, name string) {
		c.call(unix.SYS_MOVE_MOUNT, tree.content(), c.text(""), dir, c.text(name), number(unix.MOVE_MOUNT_F_EMPTY_PATH))
	}
	for _, name := range sandbox.Devices {
		c.step(stepDevice, at+"/"+name)
		attach(c.devices[name], name)
	}
	c.step(stepDevice, at+"/pts")
	attach(c.fileSystem("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "ptmxmode", "0666", "mode", "620"), "pts")
	if c.console != 0 {
		c.step(stepDevice, at+"/console")
		attach(c.console, "console")
	}
}

func (c *compiler) proc(at string) {
	on := c.mountPoint(stepProcfs, at, true)
	c.attach(c.procfs.content(), on.content())
	c.close(on)
}

// freeze makes a part of the new procfs read-only.
func (c *compiler) freeze(at string) {
	c.step(stepFreeze, at)
	on := c.openPath(here, at)
	tree := c.copyTree(on.content())
	c.setAttributes(tree.content(), unix.MOUNT_ATTR_RDONLY, true)
	c.attach(tree.content(), on.content())
	c.close(tree)
	c.close(on)
}

func (c *compiler) makeDir(op sandbox.Op) error {
	c.step(stepMake, op.Path)
	r, relative := c.around(op.Path)
	if r == nil {
		return fmt.Errorf("%w: cannot do %v, which is not in a directory of the sandbox", errPlan, op)
	}
	c.makeParents(r, relative)
	c.makeOnce(r, relative, uint(sandbox.UnixMode(op.Mode)))
	return nil
}

func (c *compiler) makeLink(op sandbox.Op) error {
	c.step(stepMake, op.Path)
	r, relative := c.around(op.Path)
	if r == nil {
		return fmt.Errorf("%w: cannot do %v, which is not in a directory of the sandbox", errPlan, op)
	}
	c.makeParents(r, relative)
	c.call(unix.SYS_SYMLINKAT, c.text(op.Target), r.dir.content(), c.text(relative))
	return nil
}

// maskDir hides a directory. Masks that are read-only at once share one file system for each mode.
func (c *compiler) maskDir(op sandbox.Op, sealed bool) {
	mode := sandbox.UnixMode(op.Mode)
	on := c.mountPoint(stepMask, op.Path, true)
	switch first := c.masks[mode]; {
	case !sealed:
		mask := c.fileSystem("tmpfs", harmless, "mode", strconv.FormatUint(uint64(mode), 8))
		c.attach(mask.content(), on.content())
		c.regions = append(c.regions, region{path: op.Path, dir: mask, made: make(map[string]bool)})
	case first != 0:
		mask := c.copyTree(first.content())
		c.attach(mask.content(), on.content())
		c.close(mask)
	default:
		mask := c.fileSystem("tmpfs", readOnly, "mode", strconv.FormatUint(uint64(mode), 8))
		c.attach(mask.content(), on.content())
		c.masks[mode] = mask
	}
	c.close(on)
}

// maskWithFile hides something that is not a directory.
func (c *compiler) maskWithFile(op sandbox.Op) {
	source := c.maskSource(op)
	on := c.mountPoint(stepMask, op.Path, false)
	if first := c.maskFile[source]; first != 0 {
		mask := c.copyTree(first.content())
		c.attach(mask.content(), on.content())
		c.close(mask)
	} else {
		mask := c.trees[source]
		c.attach(mask.content(), on.content())
		c.maskFile[source] = mask
	}
	c.close(on)
}

// seal makes a mask read-only in which names were made.
func (c *compiler) seal(at string) {
	i := slices.IndexFunc(c.regions, func(r region) bool { return r.path == at })
	if i < 0 {
		return // it is read-only already
	}
	c.step(stepSeal, at)
	c.setAttributes(c.regions[i].dir.content(), unix.MOUNT_ATTR_RDONLY, false)
	c.close(c.regions[i].dir)
	c.regions = slices.Delete(c.regions, i, i+1)
}

// cover mounts a device over a symbolic link itself.
func (c *compiler) cover(at string) {
	c.step(stepCover, at)
	fd := c.cell()
	how := c.numbers(unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0, unix.RESOLVE_NO_SYMLINKS)
	c.call(unix.SYS_OPENAT2, here, c.text(at), how, number(unix.SizeofOpenHow)).into(fd)
	c.lookAt(fd.content())
	c.require(c.statx.at(statxMode).content(), number(uint64(unix.S_IFMT)<<32), number(uint64(unix.S_IFLNK)<<32), int(unix.ESTALE))
	mask := c.copyTree(c.devices["null"].content())
	c.attach(mask.content(), fd.content())
	c.close(mask)
	c.close(fd)
}
