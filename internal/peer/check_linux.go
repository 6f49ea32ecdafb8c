package peer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxProcFile limits what is read of a file in /proc: a status has about 1 KiB, and a
// uid_map at most 340 lines.
const maxProcFile = 64 << 10

// Check returns nil if the process that made the connection is in the pid and user
// namespaces of this process. Connections other than Unix sockets are accepted.
//
// The process is the one that called connect, even if another process uses the
// connection now. Call Check soon after accept, while that process exists.
func Check(conn net.Conn) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	p, err := identify(c)
	if err != nil {
		return fmt.Errorf("%w: cannot find out which process is connecting: %w", ErrRefused, err)
	}
	defer p.close()
	if p.cred.Pid == int32(os.Getpid()) {
		return nil
	}
	return p.judge()
}

// Owner returns nil if the process that made the connection belongs to this user or to root, and Check accepts
// it. Connections other than Unix sockets are refused.
func Owner(conn net.Conn) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%w: it has not come over a Unix socket", ErrRefused)
	}
	p, err := identify(c)
	if err != nil {
		return fmt.Errorf("%w: cannot find out which process is connecting: %w", ErrRefused, err)
	}
	p.close()
	if p.cred.Uid != 0 && p.cred.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%w: it belongs to another user", ErrRefused)
	}
	return Check(conn)
}

// A process is the process at the other end of a connection.
type process struct {
	cred *unix.Ucred // at the time of connect, with numbers of our namespaces
	pid  *os.File    // a pidfd; nil: this kernel has none for sockets (before Linux 6.5)
}

func (p *process) close() {
	if p.pid != nil {
		p.pid.Close()
	}
}

func identify(c *net.UnixConn) (*process, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := new(process)
	var failure error
	err = raw.Control(func(fd uintptr) {
		if p.cred, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failure != nil {
			return
		}
		pid, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		switch {
		case err == nil:
			p.pid = os.NewFile(uintptr(pid), "pidfd")
		case !errors.Is(err, unix.ENOPROTOOPT):
			failure = os.NewSyscallError("SO_PEERPIDFD", err) // the process has ended
		}
	})
	return p, errors.Join(err, failure)
}

// judge compares the namespaces of the process with ours.
func (p *process) judge() error {
	self, err := look("/proc/self")
	if err != nil {
		return fmt.Errorf("%w: cannot look at the namespaces of this server: %w", ErrRefused, err)
	}
	number, err := p.number()
	if err != nil {
		return fmt.Errorf("%w: cannot find the client in /proc: %w", ErrRefused, err)
	}
	if number == 0 {
		return refusal("pid")
	}
	theirs, err := look("/proc/" + strconv.Itoa(number))
	if err != nil {
		return fmt.Errorf("%w: cannot look at the namespaces of the client: %w", ErrRefused, err)
	}
	// If the number is still the client's now, it was the client's all the time.
	if again, err := p.number(); err != nil || again != number {
		return fmt.Errorf("%w: it ended during the check", ErrRefused)
	}
	return compare(self, theirs, p.cred.Uid)
}

// number returns the pid of the process in /proc; 0 if it is in a pid namespace that
// is neither ours nor below ours.
func (p *process) number() (int, error) {
	if p.pid == nil {
		// The number may belong to another process now. Only pidfds of sockets,
		// since Linux 6.5, exclude that.
		if link, err := os.Readlink("/proc/self"); err != nil || link != strconv.Itoa(os.Getpid()) {
			return 0, errors.New("/proc belongs to another pid namespace")
		}
		return int(p.cred.Pid), nil
	}
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(p.pid.Fd())))
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(field(string(text), "Pid:"))
	if err != nil {
		return 0, errors.New("the kernel does not tell its number")
	}
	if n < 0 {
		return 0, syscall.ESRCH
	}
	return n, nil
}

// A view is what procfs shows of the namespaces of a process.
type view struct {
	pid, user string // targets of the links of the namespaces; "": this kernel has no such namespaces
	unseen    bool   // the links may not be read

	depth  int    // number of pid namespaces that it is in, counted from that of procfs; 0: unknown
	uidMap string // of its user namespace
}

// look reads a directory of procfs. If this process may not trace another (it belongs to
// another user, or forbids tracing, as sshd does where it forwards sockets), the links are
// hidden, but not the rest.
func look(dir string) (v view, err error) {
	d, err := os.Open(dir) // of one process: once it has ended, nothing can be read here
	if err != nil {
		return v, err
	}
	defer d.Close()
	for name, link := range map[string]*string{"ns/pid": &v.pid, "ns/user": &v.user} {
		*link, err = readLink(d, name)
		switch {
		case errors.Is(err, fs.ErrPermission):
			v.unseen = true
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return v, err
		}
	}
	status, err := readFile(d, "status")
	if err != nil {
		return v, err
	}
	v.depth = len(strings.Fields(field(status, "NSpid:")))
	if v.uidMap, err = readFile(d, "uid_map"); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return v, err
}

// compare decides about a client with the user id uid.
func compare(ours, theirs view, uid uint32) error {
	if !ours.unseen && !theirs.unseen {
		switch {
		case theirs.pid != ours.pid:
			return refusal("pid")
		case theirs.user != ours.user:
			return refusal("user")
		}
		return nil
	}
	// If procfs belongs to our pid namespace, a depth of 1 proves that the client is in
	// it, too. An equal uid_map is weaker: root can create a second user namespace with
	// the map of ours, and so can a user if ours maps that user alone. It is enough here:
	// the sandboxes of tether have another pid namespace, whatever their user namespace.
	switch {
	case ours.depth != 1:
		return fmt.Errorf("%w: its namespaces must not be read, and /proc belongs to another pid namespace", ErrRefused)
	case theirs.depth != 1:
		return refusal("pid")
	case theirs.uidMap != ours.uidMap:
		return refusal("user")
	case uid != 0 && uid != uint32(os.Geteuid()):
		return fmt.Errorf("%w: it belongs to another user, and its namespaces must not be read", ErrRefused)
	}
	return nil
}

// refusal is the error for a client in another namespace.
func refusal(kind string) error {
	return fmt.Errorf("%w: it is in another container or sandbox than the server (its %s namespace differs)", ErrRefused, kind)
}

func readLink(dir *os.File, name string) (string, error) {
	buf := make([]byte, 128)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: dir.Name() + "/" + name, Err: err}
	}
	return string(buf[:n]), nil
}

func readFile(dir *os.File, name string) (string, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: dir.Name() + "/" + name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProcFile))
	return string(text), err
}

// field returns the text after a name at the beginning of a line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
