package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// Variables that make the test binary one end of a connection.
const (
	beServer = "PEER_TEST_SERVER" // path of the socket to serve
	beClient = "PEER_TEST_CLIENT" // path of the socket to connect to
	howTo    = "PEER_TEST_HOW"    // how the client behaves
)

// Behaviours of a client.
const (
	undumpable = "undumpable" // other processes of its user may not trace it
	handOver   = "hand-over"  // it passes the connection to a child, and ends
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(beServer) != "":
		if err := serve(os.Getenv(beServer)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case os.Getenv(beClient) != "":
		if err := connect(os.Getenv(beClient), os.Getenv(howTo)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		goleak.VerifyTestMain(m)
	}
}

// serve sends each client the result of Check. It ends when its input does.
func serve(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := os.Chmod(path, 0o777); err != nil { // the mode is not tested here
		return err
	}
	fmt.Println("ready")
	go func() { // ends the process
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		first := make([]byte, 1)
		if _, err := conn.Read(first); err == nil { // the client has changed its behaviour
			fmt.Fprintln(conn, Check(conn))
		}
		conn.Close()
	}
}

// connect prints the server's answer. The first byte tells the server to check.
func connect(path, how string) error {
	if how == undumpable {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	if how == handOver {
		f, err := conn.(*net.UnixConn).File()
		if err != nil {
			return err
		}
		child := exec.Command("sh", "-c", "cat >&2; printf x >&3; cat <&3") // its input ends when this process has ended
		child.Stdin, child.Stdout, child.ExtraFiles = os.Stdin, os.Stdout, []*os.File{f}
		return child.Start()
	}
	if _, err := io.WriteString(conn, "x"); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, conn)
	return err
}

// ordinaryUser is a user that is not root. It needs no name.
const ordinaryUser = 1234

// self returns this program with some variables. Every user can execute it.
func self(t *testing.T, uid int, env ...string) *exec.Cmd {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/fd/3") // the user may have no access to its directory
	image, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { image.Close() })
	cmd.ExtraFiles = []*os.File{image}
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if uid != os.Geteuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return cmd
}

// startServer runs a server as a user and returns its socket.
func startServer(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer-") // not TempDir: users have no access to its parent
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	cmd := self(t, uid, beServer+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	ready := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, ready); err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	return path
}

// A client is a process that connects.
type client struct {
	uid int
	how string
	ns  uintptr // new namespaces
}

func (c client) String() string {
	var kinds []string
	for flag, name := range map[uintptr]string{unix.CLONE_NEWPID: "pid", unix.CLONE_NEWUSER: "user", unix.CLONE_NEWNET: "net"} {
		if c.ns&flag != 0 {
			kinds = append(kinds, name)
		}
	}
	return fmt.Sprintf("user %d %s %v", c.uid, c.how, kinds)
}

// ask returns the result of Check for a client.
func (c client) ask(t *testing.T, path string) string {
	t.Helper()
	cmd := self(t, c.uid, beClient+"="+path, howTo+"="+c.how)
	cmd.SysProcAttr.Cloneflags = c.ns
	if c.ns&unix.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.Credential = nil
		one := []syscall.SysProcIDMap{{ContainerID: c.uid, HostID: c.uid, Size: 1}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = one, one
		if c.uid != os.Geteuid() {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid), NoSetGroups: true}
		}
	}
	out, err := cmd.Output()
	if errors.Is(err, unix.EPERM) && c.ns != 0 {
		need.CannotRun(t, "%v cannot be made here: %v", c, err)
	}
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	return strings.TrimSpace(string(out))
}

const accepted = "<nil>"

func TestClientsInOurNamespacesAreAccepted(t *testing.T) {
	t.Parallel()
	me := os.Geteuid()
	path := startServer(t, me)
	for _, c := range []client{{uid: me}, {uid: me, how: undumpable}, {uid: me, ns: unix.CLONE_NEWNET}} {
		if c.ns != 0 && me != 0 {
			continue
		}
		if got := c.ask(t, path); got != accepted {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// A server without privileges cannot read the namespaces of root's processes, or of
// processes of its own user that forbid it.
func TestUnreadableClientsInOurNamespacesAreAccepted(t *testing.T) {
	t.Parallel()
	need.Root(t, "to play several users")
	path := startServer(t, ordinaryUser)
	for _, c := range []client{{uid: ordinaryUser}, {uid: ordinaryUser, how: undumpable}, {uid: 0}, {uid: 0, how: undumpable}} {
		if got := c.ask(t, path); got != accepted {
			t.Errorf("%v: %s", c, got)
		}
	}
	c := client{uid: ordinaryUser + 1}
	if got, want := c.ask(t, path), "client refused: it belongs to another user, and its namespaces must not be read"; got != want {
		t.Errorf("%v: %s", c, got)
	}
}

func TestClientsInOtherNamespacesAreRefused(t *testing.T) {
	t.Parallel()
	need.Root(t, "to play several users")
	for _, server := range []int{0, ordinaryUser} {
		path := startServer(t, server)
		for _, uid := range []int{0, ordinaryUser} {
			for _, how := range []string{"", undumpable} {
				for kind, ns := range map[string]uintptr{"pid": unix.CLONE_NEWPID, "user": unix.CLONE_NEWUSER, "pid ": unix.CLONE_NEWPID | unix.CLONE_NEWUSER} {
					c := client{uid, how, ns}
					want := "its " + strings.TrimSpace(kind) + " namespace differs"
					if got := c.ask(t, path); !strings.Contains(got, want) {
						t.Errorf("server %d, client %v: %s", server, c, got)
					}
				}
			}
		}
	}
}

// Before Linux 6.5 only the pid of the client is known.
func TestClientsWithoutADescriptor(t *testing.T) {
	t.Parallel()
	need.Root(t, "to play several users")
	for ns, want := range map[uintptr]string{0: "", unix.CLONE_NEWPID: "its pid namespace differs", unix.CLONE_NEWUSER: "its user namespace differs"} {
		cmd := exec.Command("cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: ns}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p := process{cred: &unix.Ucred{Pid: int32(cmd.Process.Pid)}}
		if err := p.judge(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%#x: %v", ns, err)
		}
		in.Close()
		cmd.Wait()
		if err := p.judge(); !errors.Is(err, ErrRefused) {
			t.Errorf("%#x, after its end: %v", ns, err)
		}
	}
}

// Check is about the process that has connected. If it has ended, its namespaces
// cannot be found out.
func TestClientThatIsGoneIsRefused(t *testing.T) {
	t.Parallel()
	path := startServer(t, os.Geteuid())
	cmd := self(t, os.Geteuid(), beClient+"="+path, howTo+"="+handOver)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, theirs, err := os.Pipe() // not StdoutPipe: Wait would close it
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout = theirs
	// Wait closes the input, but not before the process has ended.
	err = cmd.Run()
	theirs.Close()
	input.Close()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(output); err != nil || !strings.HasPrefix(string(got), ErrRefused.Error()) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOwnConnectionsAreAccepted(t *testing.T) {
	t.Parallel()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := errors.Join(Check(conn), Owner(conn)); err != nil {
			t.Error(err)
		}
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if err := Check(near); err != nil {
		t.Error(err)
	}
	if err := Owner(near); !errors.Is(err, ErrRefused) {
		t.Errorf("the owner of a connection that is not a Unix socket: %v", err)
	}
}

// Cases that the machine of the test does not have: no namespaces, and the procfs of
// another container.
func TestCompare(t *testing.T) {
	t.Parallel()
	const whole = "0 0 4294967295\n"
	me := uint32(os.Geteuid())
	seen := view{pid: "pid:[1]", user: "user:[1]", depth: 1, uidMap: whole}
	hidden := view{unseen: true, depth: 1, uidMap: whole}
	for name, row := range map[string]struct {
		ours, theirs view
		uid          uint32
		want         string
	}{
		"no namespaces in this kernel": {view{depth: 1}, view{depth: 1}, me, ""},
		"another user, links seen":     {seen, seen, me + 7, ""},
		"links hidden":                 {seen, hidden, me, ""},
		"another user, links hidden":   {seen, hidden, me + 7, "another user"},
		"foreign procfs, links seen":   {view{pid: "pid:[1]", user: "user:[1]", depth: 2}, view{pid: "pid:[1]", user: "user:[1]", depth: 2}, me, ""},
		"foreign procfs, a neighbour":  {view{pid: "pid:[1]", user: "user:[1]", depth: 2}, view{pid: "pid:[2]", user: "user:[1]", depth: 2}, me, "pid namespace differs"},
		"foreign procfs, links hidden": {view{pid: "pid:[1]", user: "user:[1]", depth: 2}, view{unseen: true, depth: 2, uidMap: whole}, me, "another pid namespace"},
		"no depth":                     {seen, view{unseen: true, uidMap: whole}, me, "pid namespace differs"},
		"links gone":                   {seen, view{depth: 1, uidMap: whole}, me, "pid namespace differs"},
	} {
		err := compare(row.ours, row.theirs, row.uid)
		if (err == nil) != (row.want == "") || err != nil && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}
