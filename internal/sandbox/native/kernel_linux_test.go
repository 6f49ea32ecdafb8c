package native

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/stage"
	"github.com/tetherexec/tether/internal/tethertest/soak"
)

// A kernel answers the calls of a script as a machine does on which everything works: descriptors are numbers, and each path of
// the order shows what was planned. A test can change one answer.
type kernel struct {
	order *Order
	model *model
	paths map[uint64]string // of descriptors
	next  uint64
	calls int
	names []string // of the calls in their order

	inside bool // the capabilities were dropped

	answer func(call int, nr uint32, result uint64) uint64   // nil: unchanged
	show   func(m *stage.Mount, inside bool, s *shownMount)  // nil: unchanged
	state  func(question string, is uint64) (answers uint64) // nil: unchanged
}

// shownMount is what statx and fstatfs say about a path.
type shownMount struct {
	dev, ino   uint64
	mountRoot  bool
	readOnly   bool
	fileSystem uint64
	user       uint64
}

// outcome is the end of a script in the model.
type outcome struct {
	executed string // the program; empty: none
	failed   error  // the explained failure
	err      error
}

func newKernel(o *Order) *kernel { return &kernel{order: o, paths: map[uint64]string{}, next: 10} }

// carryOut runs the script until the command is executed, which is where process 2 ends.
func (k *kernel) carryOut(encoded []byte) (o outcome) {
	k.model = &model{memory: bytes.Clone(encoded), left: 200_000}
	k.model.call = func(nr uint32, args [6]uint64) uint64 {
		result := k.call(nr, args)
		if k.answer != nil {
			result = k.answer(k.calls, nr, result)
		}
		k.calls++
		k.names = append(k.names, callName(nr))
		k.inside = k.inside || nr == unix.SYS_CAPSET
		if (nr == unix.SYS_EXECVE || nr == unix.SYS_EXECVEAT) && result == 0 {
			o.executed = k.text(args[0])
			panic(exited(0))
		}
		return result
	}
	_, o.err = k.model.run()
	return o
}

func (k *kernel) text(address uint64) string {
	if address < scriptBase {
		return ""
	}
	t := k.model.memory[address-scriptBase:]
	return string(t[:bytes.IndexByte(t, 0)])
}

func (k *kernel) descriptor(path string) uint64 {
	k.next++
	k.paths[k.next] = path
	return k.next
}

func (k *kernel) asked(question string, is uint64) uint64 {
	if k.state != nil {
		return k.state(question, is)
	}
	return is
}

func (k *kernel) call(nr uint32, args [6]uint64) uint64 {
	switch nr {
	case unix.SYS_OPENAT2, unix.SYS_OPENAT:
		name := k.text(args[1])
		if !strings.HasPrefix(name, "/") {
			name = path.Join("/region", name)
		}
		return k.descriptor(name)
	case unix.SYS_OPEN_TREE, unix.SYS_FSMOUNT, unix.SYS_FSOPEN, unix.SYS_SOCKET, unix.SYS_PIDFD_OPEN:
		return k.descriptor("")
	case unix.SYS_STATX:
		return k.statx(args)
	case unix.SYS_FSTATFS:
		s := k.shown(k.paths[args[0]])
		k.model.store(args[1], s.fileSystem)
		var flags uint64
		if s.readOnly {
			flags |= unix.ST_RDONLY
		}
		k.model.store(args[1]+statfsFlags, flags)
	case unix.SYS_CAPGET:
		for i := range uint64(3) {
			k.model.store(args[1]+8*i, k.asked("capabilities", 0))
		}
	case unix.SYS_GETSOCKOPT:
		k.model.store(args[3], k.asked("network", 78))
	case unix.SYS_READLINKAT:
		copy(k.model.memory[args[2]-scriptBase:], "/dev/pts/0")
		return 10
	case unix.SYS_PRCTL:
		switch args[0] {
		case unix.PR_GET_NO_NEW_PRIVS:
			return k.asked("no new privileges", 1)
		case unix.PR_GET_SECCOMP:
			return k.asked("filter", 2)
		case unix.PR_CAPBSET_READ:
			return k.asked("bounding set", 0)
		case unix.PR_GET_DUMPABLE:
			return k.asked("dumpable", 0)
		}
	case unix.SYS_EXIT_GROUP:
		panic(exited(args[0]))
	case unix.SYS_WAIT4:
		return 2
	}
	return 0
}

// shown returns what is at a path: inside the sandbox if the capabilities were dropped, else outside.
func (k *kernel) shown(name string) (s shownMount) {
	inside := k.inside
	s.user = 5
	for i := range k.order.Config.Mounts {
		m := k.order.Config.Mounts[i]
		source := m.Path
		if m.Kind == stage.MountBind && !m.Directory && m.ReadOnly && !inside {
			source = k.maskSource(m.Path)
		}
		if source != name {
			continue
		}
		s = shownMount{dev: m.Dev, ino: m.Ino, mountRoot: inside, readOnly: inside && m.ReadOnly, user: 5}
		switch m.Kind {
		case stage.MountMask, stage.MountDev:
			s.fileSystem = unix.TMPFS_MAGIC
		case stage.MountProc:
			s.fileSystem = unix.PROC_SUPER_MAGIC
		}
		if k.show != nil {
			k.show(&m, inside, &s)
		}
	}
	return s
}

// maskSource returns the file of the host that hides a path.
func (k *kernel) maskSource(at string) string {
	for _, op := range k.order.Plan.Ops {
		if op.Path == at && op.Kind == sandbox.OpMaskFile {
			if op.Mode == 0 {
				return k.order.Hidden
			}
			return k.order.Empty
		}
	}
	return at
}

func (k *kernel) statx(args [6]uint64) uint64 {
	to := args[4] - scriptBase
	buffer := k.model.memory[to : to+statxSize]
	clear(buffer)
	le := binary.LittleEndian
	if name := k.text(args[1]); name != "" { // a program
		le.PutUint16(buffer[28:], unix.S_IFREG|0o755)
		return 0
	}
	name := k.paths[args[0]]
	s := k.shown(name)
	mode := uint16(unix.S_IFDIR)
	for _, op := range k.order.Plan.Ops {
		if op.Kind == sandbox.OpCover && op.Path == name {
			mode = unix.S_IFLNK
		}
	}
	le.PutUint16(buffer[28:], mode)
	le.PutUint64(buffer[statxInode:], s.ino)
	le.PutUint32(buffer[statxDevice:], unix.Major(s.dev))
	le.PutUint32(buffer[statxDevice+4:], unix.Minor(s.dev))
	le.PutUint32(buffer[20:], uint32(s.user))
	if s.mountRoot {
		le.PutUint64(buffer[statxAttributes:], unix.STATX_ATTR_MOUNT_ROOT)
	}
	return 0
}

// start compiles an order and carries it out with a kernel.
func start(t *testing.T, o *Order, change func(*kernel)) (*Script, *kernel, outcome) {
	t.Helper()
	script, err := Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := script.Encode()
	if err != nil {
		t.Fatal(err)
	}
	k := newKernel(o)
	if change != nil {
		change(k)
	}
	out := k.carryOut(encoded)
	if out.err != nil {
		t.Fatal(out.err)
	}
	if r := k.model.report; r != nil {
		out.failed = script.Explain(binary.LittleEndian.Uint64(r[16:]), binary.LittleEndian.Uint64(r[8:]))
	}
	return script, k, out
}

// On a machine on which everything works the command is executed, once everything was verified.
func TestScriptsExecuteTheCommand(t *testing.T) {
	for _, name := range planNames {
		t.Run(name, func(t *testing.T) {
			o := orderOf(readPlan(t, name+".plan"))
			if _, k, out := start(t, o, nil); out.executed != "/usr/bin/make" || out.failed != nil {
				t.Errorf("%+v after %v", out, k.names)
			}
		})
	}
}

// fewPlans are plans that together have every kind of operation.
var fewPlans = []string{"workspace-write", "minimal", "managed"}

// If a call fails, the command is not executed, and the failure names the step. Calls whose failure is harmless are listed here.
func TestEveryCallCanFail(t *testing.T) {
	harmless := map[string]bool{
		"faccessat": true, // the next program of the PATH, or the error of the execution
	}
	for _, name := range soak.Scaled(fewPlans, planNames) {
		t.Run(name, func(t *testing.T) {
			o := orderOf(readPlan(t, name+".plan"))
			_, all, _ := start(t, o, nil)
			for i, call := range all.names {
				_, _, out := start(t, o, func(k *kernel) {
					k.answer = func(n int, _ uint32, result uint64) uint64 {
						if n == i {
							return failureOf(unix.EIO)
						}
						return result
					}
				})
				executable := out.executed == "/usr/bin/make"
				switch {
				case harmless[call] || call == "statx" && i > len(all.names)-12: // the next program is executed
				case call == "openat" && executable: // a pipe instead of /dev/null
				case call == "openat2" && executable: // a check opens its path again, in the same way
				case out.executed != "" || out.failed == nil:
					t.Errorf("call %d, %s, fails: %+v", i, call, out)
				case !errors.Is(out.failed, unix.EIO):
					t.Errorf("call %d, %s, fails: %v", i, call, out.failed)
				}
			}
		})
	}
}

func failureOf(errno syscall.Errno) uint64 { return -uint64(errno) }

// If a check finds anything else than what was planned, the command is not executed.
func TestEveryCheckCounts(t *testing.T) {
	for _, name := range soak.Scaled(fewPlans, planNames) {
		o := orderOf(readPlan(t, name+".plan"))
		refused := func(what, want string, change func(*kernel)) {
			t.Helper()
			_, _, out := start(t, o, change)
			if out.executed != "" || out.failed == nil || !strings.Contains(out.failed.Error(), want) {
				t.Errorf("%s: %s: %+v, want %q", name, what, out, want)
			}
		}
		for question, row := range map[string]struct {
			answer uint64
			want   string
		}{
			"capabilities":      {1 << 21, "capabilities are left"},
			"bounding set":      {1, "capabilities could be gained"},
			"no new privileges": {0, "new privileges are possible"},
			"dumpable":          {1, "new privileges are possible"},
			"filter":            {0, "there is no system call filter"},
			"network":           {77, "in the network of the server"},
		} {
			if question == "network" && o.Config.Listen == 0 {
				continue
			}
			refused(question, row.want, func(k *kernel) {
				k.state = func(asked string, is uint64) uint64 {
					if asked == question {
						return row.answer
					}
					return is
				}
			})
		}
		for _, m := range o.Config.Mounts {
			spoil := func(what, want string, inside bool, change func(*shownMount)) {
				t.Helper()
				refused(m.Path+" "+what, want, func(k *kernel) {
					k.show = func(of *stage.Mount, in bool, s *shownMount) {
						if of.Path == m.Path && in == inside {
							change(s)
						}
					}
				})
			}
			spoil("is no mount", m.Path+": nothing is mounted", true, func(s *shownMount) { s.mountRoot = false })
			if m.ReadOnly {
				spoil("is writable", m.Path+": it can be written", true, func(s *shownMount) { s.readOnly = false })
			}
			switch m.Kind {
			case stage.MountBind:
				spoil("has another inode", "not what was there", true, func(s *shownMount) { s.ino++ })
				spoil("has another device", "not what was there", true, func(s *shownMount) { s.dev++ })
				if m.Path != "/" && m.Directory {
					spoil("was replaced before", "not what was there", false, func(s *shownMount) { s.ino++ })
				}
			case stage.MountMask, stage.MountDev:
				spoil("is on a disk", "not in memory", true, func(s *shownMount) { s.fileSystem = unix.EXT4_SUPER_MAGIC })
			case stage.MountProc:
				spoil("is no procfs", "not a procfs", true, func(s *shownMount) { s.fileSystem = unix.EXT4_SUPER_MAGIC })
			}
		}
	}
}

// A mount that the command cannot reach, because a directory of another user is in the way, is not verified. If the
// directory is the command's own, the start fails: the command could change its mode.
func TestBlockedByDirectory(t *testing.T) {
	const owner = 5 // of every path in the model
	for user, want := range map[int]string{1000: "", owner: "/home/other/private/secret: permission denied"} {
		o := orderOf(&sandbox.Plan{Shape: sandbox.ShapeNamespaces, Filter: sandbox.FilterOpen, Ops: []sandbox.Op{
			{Kind: sandbox.OpBindRO, Path: "/"}, {Kind: sandbox.OpMaskDir, Path: "/home/other/private/secret"},
			{Kind: sandbox.OpSeal, Path: "/home/other/private/secret"},
		}})
		o.UID, o.Config.Mounts[1].Blockable = user, true
		_, k, out := start(t, o, func(k *kernel) {
			k.answer = func(_ int, nr uint32, result uint64) uint64 {
				if nr == unix.SYS_OPENAT2 && k.inside && strings.HasPrefix(k.paths[result], "/home/other/") {
					return failureOf(unix.EACCES)
				}
				return result
			}
		})
		switch {
		case want == "" && out.executed == "":
			t.Errorf("blocked by another user: %+v after %v", out, k.names)
		case want != "" && (out.executed != "" || out.failed == nil || out.failed.Error() != want):
			t.Errorf("blocked by the user: %+v, want %s", out, want)
		}
	}
}
