package native

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// An Order is a plan, and what this machine and one command add to it.
type Order struct {
	Plan *sandbox.Plan

	// Config is the command, and the mounts that must be found inside before it is executed. What only bubblewrap
	// needs (Freeze, Seal, Cover) is not used.
	Config *stage.Config

	// Filter is loaded before the mounts are verified, Config.Filter after.
	Filter []byte

	// Hidden and Empty are files of the host that are mounted over hidden ones.
	Hidden, Empty string

	// UID is the user of the command, LastCapability the last capability that the kernel has.
	UID            int
	LastCapability int

	// OwnProgram: the command is the program of descriptor programFile, whatever Argv[0] is.
	OwnProgram bool

	// StageDev and StageIno identify the image of the stage, which must not be executed as a command.
	StageDev, StageIno uint64

	// Ports are the ports of the listeners that Config asks for.
	Ports []int
}

// maxCapability is the largest number that fits the two words of capget.
const maxCapability = 63

var errPlan = errors.New("native sandbox")

// compiler turns an order into a script.
type compiler struct {
	*Script
	order   *Order
	command *stage.Config

	binds map[string]stage.Mount // what binds must show, by path
	trees map[string]cell        // the mounts of the host that were copied, by the path of the host

	statx, statfs cell // room for the answers of these calls

	regions  []region        // directories of the sandbox's own in which names can be made
	masks    map[uint32]cell // the descriptor of a mask of each mode, which is mounted and read-only
	maskFile map[string]cell // the descriptor of a mounted mask, by the file of the host

	devices   map[string]cell
	console   cell
	procfs    cell
	umask     cell
	limit     cell // the limit of open files; 0: not changed
	listeners []cell
	later     []func() // records behind the end of the script that few starts carry out
}

// Compile returns the script that carries out an order. It touches nothing.
func Compile(o *Order) (*Script, error) {
	if o.Plan.Shape != sandbox.ShapeNamespaces {
		return nil, fmt.Errorf("%w: a plan of shape %v has no namespaces", errPlan, o.Plan.Shape)
	}
	if o.LastCapability < 0 || o.LastCapability > maxCapability || len(o.Ports) != o.Config.Listen || o.Config.Listen > stage.MaxListen ||
		len(o.Config.Argv) == 0 || len(o.Filter) == 0 {
		return nil, fmt.Errorf("%w: the order is incomplete", errPlan)
	}
	c := &compiler{
		Script: newScript(), order: o, command: o.Config,
		binds: make(map[string]stage.Mount), trees: make(map[string]cell), devices: make(map[string]cell),
		masks: make(map[uint32]cell), maskFile: make(map[string]cell),
	}
	for _, m := range o.Config.Mounts {
		if m.Kind == stage.MountBind {
			c.binds[m.Path] = m
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := c.compile(); err != nil {
		return nil, err
	}
	for len(c.later) > 0 {
		next := c.later[0]
		c.later = c.later[1:]
		next()
	}
	return c.Script, nil
}

// check refuses strings that the kernel would cut short, and a plan without a root.
func (c *compiler) check() error {
	if len(c.order.Plan.Ops) == 0 || c.order.Plan.Ops[0].Path != "/" {
		return fmt.Errorf("%w: the plan has no root directory", errPlan)
	}
	for i, op := range c.order.Plan.Ops {
		if !path.IsAbs(op.Path) || path.Clean(op.Path) != op.Path {
			return fmt.Errorf("%w: cannot do %v", errPlan, op)
		}
		if i > 0 && op.Path == "/" {
			return fmt.Errorf("%w: cannot do %v after other operations", errPlan, op)
		}
		if strings.ContainsRune(op.Path+op.Target, 0) {
			return fmt.Errorf("%w: a path has a zero byte", errPlan)
		}
	}
	for _, list := range [][]string{c.command.Argv, c.command.Env, {c.command.Dir, c.command.Refusal, c.order.Hidden, c.order.Empty}} {
		for _, text := range list {
			if strings.ContainsRune(text, 0) {
				return fmt.Errorf("%w: a text of the command has a zero byte", errPlan)
			}
		}
	}
	return nil
}

// compile writes the steps in their order.
func (c *compiler) compile() error {
	c.statx, c.statfs = c.room(statxSize), c.room(statfsSize)
	c.umask = c.cell()
	c.begin()
	c.network()
	if err := c.sources(); err != nil {
		return err
	}
	if err := c.mounts(); err != nil {
		return err
	}
	c.dropPrivileges()
	c.verify()
	c.loadFilter(c.command.Filter)
	c.runCommand()
	return nil
}

// begin ties the life of this process to that of its parent.
func (c *compiler) begin() {
	c.step(stepBegin, "")
	c.call(unix.SYS_PRCTL, number(unix.PR_SET_PDEATHSIG), number(uint(unix.SIGKILL)))
	// If all processes that could read the report have ended before, the signal will not come.
	const pollError, pollHangUp = 0x8, 0x10
	poll := c.bytes([]byte{reportFile, 0, 0, 0, 0, 0, 0, 0})
	c.call(unix.SYS_PPOLL, poll.address(), number(1), c.numbers(0, 0), number(0), number(8))
	c.require(poll.content(), number(uint64(pollError|pollHangUp)<<48), number(0), int(unix.EPIPE))
	c.call(unix.SYS_PRCTL, number(unix.PR_SET_NAME), c.text("tether"))
	c.call(unix.SYS_UMASK, number(0)).into(c.umask)
	c.raiseLimit()
}

// manySources is how many mounts of the host are open at once without a higher limit of open files.
const manySources = 200

// raiseLimit sets the limit of open files to the largest that is allowed, for a plan with many mounts. The command gets
// its own back.
func (c *compiler) raiseLimit() {
	if len(c.order.Plan.Ops) < manySources {
		return
	}
	c.step(stepLimit, "")
	c.limit = c.room(16)
	highest := c.room(16)
	c.call(unix.SYS_PRLIMIT64, number(0), number(unix.RLIMIT_NOFILE), number(0), c.limit.address())
	c.call(callSet, c.limit.at(8).content()).into(highest)
	c.call(callSet, c.limit.at(8).content()).into(highest.at(8))
	c.call(unix.SYS_PRLIMIT64, number(0), number(unix.RLIMIT_NOFILE), highest.address(), number(0))
}

// close closes the descriptor in a cell.
func (c *compiler) close(fd cell) { c.call(unix.SYS_CLOSE, fd.content()) }

// here stands for the current directory, in place of a descriptor.
var here = number(int64(unix.AT_FDCWD))

// openPath opens a path that leads through no symbolic links, only to name it.
func (c *compiler) openPath(dir value, name string) (fd cell) {
	fd = c.cell()
	c.openPathInto(fd, dir, name)
	return fd
}

func (c *compiler) openPathInto(fd cell, dir value, name string) *record {
	how := c.numbers(unix.O_PATH|unix.O_CLOEXEC, 0, unix.RESOLVE_NO_SYMLINKS)
	return c.call(unix.SYS_OPENAT2, dir, c.text(name), how, number(unix.SizeofOpenHow)).into(fd)
}

// setAttributes adds attributes to a mount, and to those below.
func (c *compiler) setAttributes(fd value, attributes uint64, recursive bool) {
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	c.call(unix.SYS_MOUNT_SETATTR, fd, c.text(""), number(flags), c.numbers(attributes, 0, 0, 0), number(mountAttrSize))
}

// copyTree copies the mount behind a descriptor, with those below.
func (c *compiler) copyTree(fd value) (tree cell) {
	tree = c.cell()
	c.call(unix.SYS_OPEN_TREE, fd, c.text(""),
		number(uint(unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))).into(tree)
	return tree
}

// attach mounts a tree on what a descriptor names.
func (c *compiler) attach(tree, on value) {
	c.call(unix.SYS_MOVE_MOUNT, tree, c.text(""), on, c.text(""),
		number(uint(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)))
}

// fileSystem makes a new file system with these options, and a mount of it.
func (c *compiler) fileSystem(kind string, attributes int, options ...string) (mount cell) {
	context := c.cell()
	mount = c.cell()
	c.call(unix.SYS_FSOPEN, c.text(kind), number(unix.FSOPEN_CLOEXEC)).into(context)
	for i := 0; i < len(options); i += 2 {
		c.call(unix.SYS_FSCONFIG, context.content(), number(unix.FSCONFIG_SET_STRING), c.text(options[i]), c.text(options[i+1]))
	}
	c.call(unix.SYS_FSCONFIG, context.content(), number(unix.FSCONFIG_CMD_CREATE))
	c.call(unix.SYS_FSMOUNT, context.content(), number(unix.FSMOUNT_CLOEXEC), number(attributes)).into(mount)
	c.close(context)
	return mount
}

const (
	mountAttrSize = 32
	statxSize     = 256
	statfsSize    = 120

	statxAttributes = 8   // offsets of fields
	statxUser       = 16  // the upper half
	statxMode       = 24  // the upper half
	statxInode      = 32  //
	statxDevice     = 136 // major, minor

	statfsType  = 0
	statfsFlags = 80
)

// lookAt stores what a descriptor names in c.statx.
func (c *compiler) lookAt(fd value) {
	c.call(unix.SYS_STATX, fd, c.text(""), number(uint(unix.AT_EMPTY_PATH)), number(unix.STATX_BASIC_STATS), c.statx.address())
}

// requireSame fails unless c.statx describes what a bind must show.
func (c *compiler) requireSame(m stage.Mount) {
	c.require(c.statx.at(statxInode).content(), everything, number(m.Ino), int(unix.ESTALE))
	c.require(c.statx.at(statxDevice).content(), everything, inStatx(m.Dev), int(unix.ESTALE))
}

// inStatx is a device as it is in the answer of statx.
func inStatx(dev uint64) value {
	return number(uint64(unix.Major(dev)) | uint64(unix.Minor(dev))<<32)
}
