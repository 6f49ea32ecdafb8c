package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A Server is a program that speaks the protocol on its standard input and output, or prints a URL to connect to.
type Server struct {
	Argv      []string
	Listens   bool
	Reference bool // the server is the reference: rows that note a difference are skipped
}

// An account is a user under which servers run.
type account struct {
	name     string
	backend  string // of the sandboxes of its servers; empty: not tether, or chosen by -flags
	uid, gid int
	dir      string // its own

	mu   sync.Mutex
	idle []*instance
}

func (a *account) home() string { return filepath.Join(a.dir, "home") }
func (a *account) root() bool   { return a.uid == 0 }

// argv returns the command line of a server.
func (a *account) argv() []string {
	argv := slices.Clone(suite.server.Argv)
	if a.backend != "" {
		argv = append(argv, "--sandbox-backend", a.backend)
	}
	return argv
}

// serverSecret is in the environment of every server. Commands must not see it.
const serverSecret = "conformance-secret-of-the-server"

// An instance is a running server and its client. One row has it at a time.
type instance struct {
	*client
	account *account
	cmd     *exec.Cmd
	end     func() // makes the server end
	stderr  lockedBuffer
	exited  chan struct{}
	broken  bool         // not to be used again
	always  map[int]bool // processes that belong to the server itself
	port    int          // on which it listens; 0: none
}

// lockedBuffer is a buffer that can be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs argv as the account and makes the handshake.
func (a *account) start(argv []string, attr *syscall.SysProcAttr) (*instance, error) {
	s := &instance{account: a, exited: make(chan struct{})}
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Dir = a.dir
	s.cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "SECRET=" + serverSecret,
		"HOME=" + a.home(), "XDG_STATE_HOME=" + filepath.Join(a.dir, "state"), "CODEX_HOME=" + a.home(),
	}
	s.cmd.Stderr = &s.stderr
	if s.cmd.SysProcAttr = attr; attr == nil {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if os.Geteuid() != a.uid {
		s.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.end = func() { in.Close() }
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Stdout = outWrite
	err = s.cmd.Start()
	outWrite.Close()
	if err != nil {
		outRead.Close()
		return nil, fmt.Errorf("start server: %w", err)
	}
	go func() { // ends with the server, which stop waits for
		defer close(s.exited)
		s.cmd.Wait()
	}()
	if suite.server.Listens {
		err = s.dial(in, outRead)
	} else {
		s.client = newClient(func(handle tethertest.Handler) *tethertest.Conn {
			return tethertest.NewLinesConn(outRead, in, handle)
		})
	}
	if err == nil {
		err = s.handshake()
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("%w; the server said: %s", err, s.stderr.String())
	}
	s.always = map[int]bool{}
	for pid := range s.family("", 0) {
		s.always[pid] = true
	}
	return s, nil
}

// dial connects to the URL that the server prints.
func (s *instance) dial(in io.Closer, out *os.File) error {
	defer out.Close()
	defer in.Close()
	s.end = func() { s.cmd.Process.Signal(syscall.SIGTERM) }
	out.SetReadDeadline(time.Now().Add(timeLimit))
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the server has printed no URL: %w", err)
	}
	url = strings.TrimSpace(url)
	s.port, _ = strconv.Atoi(url[strings.LastIndexByte(url, ':')+1:])
	ctx, cancel := within()
	defer cancel()
	ws, err := tethertest.DialWS(ctx, url, nil)
	if err != nil {
		return err
	}
	s.client = newClient(func(handle tethertest.Handler) *tethertest.Conn { return tethertest.NewConn(ws, handle) })
	return nil
}

// stop ends the server.
func (s *instance) stop() {
	s.end()
	select {
	case <-s.exited:
	case <-time.After(timeLimit):
		s.cmd.Process.Kill()
		<-s.exited
	}
	if s.client != nil {
		s.client.Close()
	}
}

// kill sends SIGKILL to the server.
func (s *instance) kill() {
	s.broken = true
	s.cmd.Process.Kill()
	<-s.exited
	s.client.Close()
}

// acquire returns a server for t alone, until t ends.
func (a *account) acquire(t *testing.T) *instance {
	t.Helper()
	a.mu.Lock()
	var s *instance
	if n := len(a.idle); n > 0 {
		s, a.idle = a.idle[n-1], a.idle[:n-1]
	}
	a.mu.Unlock()
	if s == nil {
		var err error
		if s, err = a.start(a.argv(), nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { a.release(t, s) })
	return s
}

func (a *account) release(t *testing.T, s *instance) {
	if t.Failed() {
		t.Logf("the server said: %s", s.stderr.String())
	}
	if s.broken || t.Failed() {
		s.stop()
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = append(a.idle, s)
}

// own starts a server for t that is not shared.
func (a *account) own(t *testing.T, argv []string, attr *syscall.SysProcAttr) *instance {
	t.Helper()
	s, err := a.start(argv, attr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server said: %s", s.stderr.String())
		}
		s.stop()
	})
	return s
}

func closeServers() {
	for _, a := range slices.Concat(suite.accounts, suite.others) {
		for _, s := range a.idle {
			s.stop()
		}
	}
}

// pids returns the processes of the server itself: with a keeper, that and its worker.
func (s *instance) pids() []int {
	return append(slices.Collect(maps.Keys(s.always)), s.cmd.Process.Pid)
}

// leftovers reports processes that are left of a command of the fixture, or of any other command that the server has started
// since the fixture was made.
func (s *instance) leftovers(fx *fixture) error {
	var left []error
	for pid, name := range s.family(fx.mark, fx.made) {
		if !s.always[pid] {
			left = append(left, fmt.Errorf("process left: %s", name))
		}
	}
	return errors.Join(left...)
}

// endLeftovers kills the processes that a failed row has left.
func (s *instance) endLeftovers(fx *fixture) {
	for pid := range s.family(fx.mark, fx.made) {
		if env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); bytes.Contains(env, []byte(fx.mark)) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// family returns the processes that descend from the server or have the mark, but not those that began before the time since,
// in ticks (ticksNow), because other programs run on this machine too. Zombies do not count.
func (s *instance) family(mark string, since uint64) map[int]string {
	parent, names := processTable(since)
	for pid := range names {
		up := pid
		for up > 1 && up != s.cmd.Process.Pid {
			up = parent[up]
		}
		if up == s.cmd.Process.Pid && pid != up {
			continue
		}
		if mark != "" {
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if bytes.Contains(env, []byte(mark)) {
				continue
			}
		}
		delete(names, pid)
	}
	return names
}

// ticksNow returns the time by which /proc says when a process began.
func ticksNow() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err)
	}
	const perSecond = 100 // of USER_HZ, on all architectures that tether has
	return uint64(now.Nano()) / (uint64(time.Second) / perSecond)
}

// processTable returns the parents of all processes, and the names of those that have begun at a time or later and are not
// zombies.
func processTable(since uint64) (parent map[int]int, names map[int]string) {
	parent, names = map[int]int{}, map[int]string{}
	dir, err := os.Open("/proc")
	if err != nil {
		panic(err)
	}
	defer dir.Close()
	entries, err := dir.Readdirnames(-1)
	if err != nil {
		panic(err)
	}
	buf := make([]byte, 4096) // longer than a line of stat
	for _, e := range entries {
		pid, err := strconv.Atoi(e)
		if err != nil {
			continue
		}
		stat := readStat(pid, buf)
		end := bytes.LastIndexByte(stat, ')')
		if end < 0 {
			continue // it has ended
		}
		fields := bytes.Fields(stat[end+1:])
		parent[pid], _ = strconv.Atoi(string(fields[1]))
		began, _ := strconv.ParseUint(string(fields[19]), 10, 64)
		if began >= since && fields[0][0] != 'Z' && fields[0][0] != 'X' {
			names[pid] = string(stat[:end+1])
		}
	}
	return parent, names
}

// readStat reads /proc/PID/stat into buf. If the process has ended, the result is empty.
func readStat(pid int, buf []byte) []byte {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// credential returns attributes by which a command runs as the account; nil: none are needed.
func (a *account) credential() *syscall.SysProcAttr {
	if os.Geteuid() == a.uid {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
}
