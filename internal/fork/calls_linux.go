//go:build amd64 || arm64

package fork

import (
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/fork/nofile"
)

const (
	lastSignal    = 64
	sigsetSize    = lastSignal / 8
	ignored       = 1 // SIG_IGN
	maxDescriptor = 1<<32 - 1
	stealTerminal = 1 // if another session has it
)

// A sigaction is the kernel's struct sigaction. Its zero value is the default action.
type sigaction struct {
	handler, flags, restorer, mask uint64
}

// raised is the limit of open files that package syscall has set.
var raised = func() (limit unix.Rlimit) {
	unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return limit
}()

// An image is all memory that the child reads and writes. It is not on a stack.
type image struct {
	clone     call
	cloneArgs cloneArgs
	calls     []call
	note      Note // for a command without one
	pidfd     int32

	path          []byte
	argv, env     []*byte
	texts         [][]byte // arguments of other calls
	noSignals     uint64
	defaultAction sigaction
	capHeader     unix.CapUserHeader
	capSets       [2]unix.CapUserData
	limits        []*unix.Rlimit
}

func (m *image) add(step Step, nr uintptr, args ...uintptr) *call {
	m.calls = append(m.calls, call{nr: nr, step: step})
	last := &m.calls[len(m.calls)-1]
	copy(last.args[:], args)
	return last
}

// clear releases what belongs to one start.
func (m *image) clear() {
	m.path, m.argv, m.env, m.calls, m.texts, m.limits = nil, nil, nil, m.calls[:0], nil, nil
}

// text keeps a string for the child and returns its address.
func (m *image) text(s string) uintptr {
	text := append([]byte(s), 0)
	m.texts = append(m.texts, text)
	return uintptr(unsafe.Pointer(&text[0]))
}

// compile fills in the calls of the child, but not the clone.
func (m *image) compile(c *Command, p placement, legacy, noCloseRange bool) error {
	var err error
	if m.path, err = syscall.ByteSliceFromString(c.Path); err != nil {
		return err
	}
	if m.argv, err = syscall.SlicePtrFromStrings(c.Argv); err != nil {
		return err
	}
	if m.env, err = syscall.SlicePtrFromStrings(c.Env); err != nil {
		return err
	}
	if p.shared {
		// This call comes first: before it, a change of a descriptor would be one of this program's,
		// and a child that hangs would keep connections of this program open.
		m.add(StepUnshare, unix.SYS_CLOSE_RANGE, p.bound, maxDescriptor, unix.CLOSE_RANGE_UNSHARE)
	}
	for _, w := range c.Writes {
		m.addFileWrite(w)
	}
	m.add(StepSession, unix.SYS_SETSID)
	m.addSignals(legacy)
	m.addFiles(c, p, noCloseRange)
	m.addNamespaces(c)
	m.addCapabilities(c)
	if c.Dir >= 0 {
		m.add(StepDirectory, unix.SYS_FCHDIR, uintptr(len(c.Files)))
	} else {
		m.add(StepDirectory, unix.SYS_CHDIR, m.text("/"))
	}
	m.addDeathSignal(c)
	if c.Terminal {
		m.add(StepTerminal, unix.SYS_IOCTL, 0, unix.TIOCSCTTY, stealTerminal)
	}
	m.addLimits(c)
	m.add(StepExec, unix.SYS_EXECVE, uintptr(unsafe.Pointer(&m.path[0])),
		uintptr(unsafe.Pointer(&m.argv[0])), uintptr(unsafe.Pointer(&m.env[0])))
	return nil
}

// addSignals gives signals their default actions, which clone3 has done already, and unblocks them.
// Signals that this program ignores stay ignored.
func (m *image) addSignals(legacy bool) {
	for signal := uintptr(1); legacy && signal <= lastSignal; signal++ {
		if signal == uintptr(unix.SIGKILL) || signal == uintptr(unix.SIGSTOP) {
			continue
		}
		old := new(sigaction)
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, signal, 0, uintptr(unsafe.Pointer(old)), sigsetSize, 0, 0)
		if old.handler != ignored {
			m.add(StepSignals, unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&m.defaultAction)), 0, sigsetSize)
		}
	}
	m.add(StepSignals, unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&m.noSignals)), 0, sigsetSize)
}

// addFiles puts the descriptors at their numbers, and the directory behind them.
func (m *image) addFiles(c *Command, p placement, noCloseRange bool) {
	for number, source := range p.sources {
		flags := 0
		if number == len(c.Files) {
			flags = unix.O_CLOEXEC
		}
		m.add(StepFiles, unix.SYS_DUP3, uintptr(source), uintptr(number), uintptr(flags))
	}
	if !noCloseRange {
		m.add(StepClose, unix.SYS_CLOSE_RANGE, uintptr(len(p.sources)), maxDescriptor, 0)
	}
}

// addNamespaces sets up the namespaces that the clone has made.
func (m *image) addNamespaces(c *Command) {
	if c.Namespaces&unix.CLONE_NEWUSER != 0 {
		m.addFileWrite(Write{"/proc/self/setgroups", "deny", StepUser, false})
		m.addFileWrite(Write{"/proc/self/gid_map", onlyID(unix.Getegid()), StepUser, false})
		m.addFileWrite(Write{"/proc/self/uid_map", onlyID(unix.Geteuid()), StepUser, false})
		// In a cgroup namespace, root of a user namespace can mount the control groups of the machine. In some containers
		// this setting is read-only.
		m.addFileWrite(Write{"/proc/sys/user/max_cgroup_namespaces", "0", StepUser, true})
	}
	if c.Namespaces&unix.CLONE_NEWNS != 0 {
		m.add(StepMounts, unix.SYS_MOUNT, m.text("none"), m.text("/"), 0, unix.MS_REC|unix.MS_PRIVATE)
	}
}

// addCapabilities lets the program keep capabilities of the new user namespace, which the execution would take.
func (m *image) addCapabilities(c *Command) {
	if c.Capabilities == 0 || c.Namespaces&unix.CLONE_NEWUSER == 0 || unix.Geteuid() == 0 {
		return
	}
	low, high := uint32(c.Capabilities), uint32(c.Capabilities>>32)
	m.capHeader = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	m.capSets = [2]unix.CapUserData{{Effective: low, Permitted: low, Inheritable: low}, {Effective: high, Permitted: high, Inheritable: high}}
	m.add(StepCapabilities, unix.SYS_CAPSET, uintptr(unsafe.Pointer(&m.capHeader)), uintptr(unsafe.Pointer(&m.capSets)))
	for n := range uintptr(64) {
		if c.Capabilities&(1<<n) != 0 {
			m.add(StepCapabilities, unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, n, 0, 0)
		}
	}
}

// onlyID maps an id to itself, and no other.
func onlyID(id int) string { return strconv.Itoa(id) + " " + strconv.Itoa(id) + " 1\n" }

// addFileWrite opens and writes a file. The descriptor is closed with all others.
func (m *image) addFileWrite(w Write) {
	at := unix.AT_FDCWD
	opened := m.add(w.Step, unix.SYS_OPENAT, uintptr(at), m.text(w.Path), unix.O_WRONLY|unix.O_CLOEXEC)
	if w.Optional {
		opened.optional = 1
	}
	written := m.add(w.Step, unix.SYS_WRITE, 0, m.text(w.Text), uintptr(len(w.Text)))
	written.chained, written.optional = 1, opened.optional
}

// addDeathSignal also checks that the parent has not died before the signal was asked for.
func (m *image) addDeathSignal(c *Command) {
	if c.DeathSignal == 0 {
		return
	}
	parent := unix.Getpid()
	if c.Sibling {
		parent = unix.Getppid()
	}
	m.add(StepDeathSignal, unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(c.DeathSignal))
	if c.Namespaces&unix.CLONE_NEWPID == 0 { // there every parent has the pid 0
		m.add(StepDeathSignal, unix.SYS_GETPPID).want = uintptr(parent)
	}
}

// addLimits sets the limits of the command. Without a limit of open files, the child gets the one that this program
// was started with, unless this program or another has set one since.
func (m *image) addLimits(c *Command) {
	files := false
	for _, l := range c.Limits {
		files = files || l.Resource == unix.RLIMIT_NOFILE
		m.addLimit(l.Resource, unix.Rlimit{Cur: l.Limit, Max: l.Limit})
	}
	original := unix.Rlimit{Cur: nofile.Soft, Max: nofile.Hard}
	var now unix.Rlimit
	if files || original.Max == 0 || original == raised || unix.Getrlimit(unix.RLIMIT_NOFILE, &now) != nil || now != raised {
		return
	}
	m.addLimit(unix.RLIMIT_NOFILE, original)
}

func (m *image) addLimit(resource int, l unix.Rlimit) {
	kept := &l
	m.limits = append(m.limits, kept)
	m.add(StepLimit, unix.SYS_PRLIMIT64, 0, uintptr(resource), uintptr(unsafe.Pointer(kept)), 0)
}
