package placeholder

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// childEnv makes the test binary a server that holds or guards a directory. Its
// value is the verb, the registry and the path, separated by colons. The server
// releases the directory when it reads a line, and ends at the end of its
// input.
const childEnv = "PLACEHOLDER_TEST_SERVER"

func TestMain(m *testing.M) {
	if args := strings.SplitN(os.Getenv(childEnv), ":", 3); len(args) == 3 {
		l, err := Open(args[1], nil)
		var h *Lease
		if err == nil {
			h, err = l.Acquire([]Want{{Path: args[2], Dir: true, Exists: args[0] == "guard"}})
		}
		fmt.Println("held", err)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			h.Release()
			fmt.Println("released")
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// A fixture is a workspace and a registry.
type fixture struct {
	testing.TB
	ws, registry string
	ledgers      int  // open ones
	littered     bool // the registry has files that are not ours
}

func newFixture(t testing.TB) *fixture {
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{TB: t, ws: ws, registry: filepath.Join(t.TempDir(), "registry")}
}

func (b *fixture) open() *Ledger {
	b.Helper()
	l, err := Open(b.registry, slog.New(slog.NewTextHandler(b.Output(), nil)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		l.Close()
		if b.ledgers--; b.ledgers == 0 && !b.littered && len(list(b, b.registry)) > 0 {
			b.Errorf("registry after the last Close: %q", list(b, b.registry))
		}
	})
	b.ledgers++
	return l
}

func (b *fixture) path(name string) string { return filepath.Join(b.ws, name) }
func (b *fixture) dir(name string) Want    { return Want{Path: b.path(name), Dir: true} }
func (b *fixture) file(name string) Want   { return Want{Path: b.path(name)} }

func (b *fixture) hold(l *Ledger, wants ...Want) *Lease {
	b.Helper()
	h, err := l.Acquire(wants)
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// must is for steps that must succeed.
func (b *fixture) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// there checks which names the workspace has.
func (b *fixture) there(names ...string) {
	b.Helper()
	if got, want := strings.Join(list(b, b.ws), " "), strings.Join(names, " "); got != want {
		b.Errorf("workspace has %q, want %q", got, want)
	}
}

// clean checks that the registry has no placeholders. Files that are kept for
// the next use are removed with the ledgers; open checks that.
func (b *fixture) clean() {
	b.Helper()
	for _, name := range list(b, b.registry) {
		data, err := os.ReadFile(filepath.Join(b.registry, name))
		b.must(err)
		if e, err := decode(data); err != nil || e.phase != nothing || e.want.Path == "" {
			b.Errorf("registry has %q", data)
		}
	}
}

func list(t testing.TB, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// entry writes a registry file as a server that crashed would have left it.
func (b *fixture) entry(path string, lines ...string) {
	b.Helper()
	b.must(os.MkdirAll(b.registry, 0o700))
	b.must(os.WriteFile(filepath.Join(b.registry, registryName(path)), []byte(strings.Join(lines, "")), 0o600))
}

// server starts a process that holds a directory; the function kills it.
func (b *fixture) server(name string) (kill func()) {
	b.Helper()
	return b.spawn("hold", b.registry, name, nil).kill
}

// A server is another process with a Lease.
type server struct {
	fixture *fixture
	kill    func()
	stdin   io.Writer
	answers *bufio.Reader
}

// start starts a server with a verb of childEnv, as another user if one is named.
func (b *fixture) start(verb, registry, name string, user *syscall.Credential) server {
	b.Helper()
	cmd := exec.Command("/proc/self/exe") // another user may execute it wherever the binary lies
	cmd.Env = append(os.Environ(), childEnv+"="+verb+":"+registry+":"+b.path(name))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	stdin, err := cmd.StdinPipe()
	b.must(err)
	stdout, err := cmd.StdoutPipe()
	b.must(err)
	b.must(cmd.Start())
	kill := sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
		stdin.Close()
	})
	b.Cleanup(kill)
	return server{b, kill, stdin, bufio.NewReader(stdout)}
}

// spawn is start for a server that must succeed.
func (b *fixture) spawn(verb, registry, name string, user *syscall.Credential) server {
	b.Helper()
	s := b.start(verb, registry, name, user)
	if line := s.line(); line != "held <nil>" {
		b.Fatalf("server said %q", line)
	}
	return s
}

// line returns the next line that the server prints.
func (s server) line() string {
	s.fixture.Helper()
	line, err := s.answers.ReadString('\n')
	s.fixture.must(err)
	return strings.TrimSuffix(line, "\n")
}

func (s server) release() {
	s.fixture.Helper()
	_, err := io.WriteString(s.stdin, "\n")
	s.fixture.must(err)
	if line := s.line(); line != "released" {
		s.fixture.Fatalf("server said %q", line)
	}
}

// keeps checks that a sweep leaves a name and drops its entry, and that Holds
// returns false for it.
func (b *fixture) keeps(name string) {
	b.Helper()
	l := b.open()
	b.there(name)
	b.clean()
	if l.Holds(b.path(name)) {
		b.Errorf("%s is taken for a placeholder", name)
	}
}

func (b *fixture) born(name string) int64 {
	b.Helper()
	var st unix.Statx_t
	b.must(unix.Statx(unix.AT_FDCWD, b.path(name), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st))
	if st.Mask&unix.STATX_BTIME == 0 {
		b.Skip("the filesystem does not know when an inode was born")
	}
	return nanoseconds(st.Btime)
}

func isChanged(err error) bool {
	_, ok := errors.AsType[*ChangedError](err)
	return ok
}

func BenchmarkAcquireRelease(b *testing.B) {
	bb := newFixture(b)
	l := bb.open()
	wants := eight(bb)
	for b.Loop() {
		h, err := l.Acquire(wants)
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}

func BenchmarkAcquireReleaseShared(b *testing.B) {
	bb := newFixture(b)
	l := bb.open()
	wants := eight(bb)
	defer bb.hold(l, wants...).Release()
	for b.Loop() {
		bb.hold(l, wants...).Release()
	}
}

func eight(b *fixture) (wants []Want) {
	b.must(os.Mkdir(b.path("tmp"), 0o755))
	for _, dir := range []string{"", "tmp/"} {
		for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
			wants = append(wants, b.dir(dir+name))
		}
	}
	return wants
}

func BenchmarkHoldsMiss(b *testing.B) {
	bb := newFixture(b)
	has := bb.open().Holds
	for b.Loop() {
		has(bb.ws)
	}
}

func BenchmarkHoldsHit(b *testing.B) {
	bb := newFixture(b)
	l := bb.open()
	defer bb.hold(l, bb.dir(".git")).Release()
	has := l.Holds
	for b.Loop() {
		has(bb.path(".git"))
	}
}
