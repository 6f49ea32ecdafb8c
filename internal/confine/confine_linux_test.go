package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/bwrap"
	"github.com/tetherexec/tether/internal/sandbox/native"
	"github.com/tetherexec/tether/internal/sandbox/stage"
	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/tethertest/soak"
	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fixture is a confiner with everything that it needs.
type fixture struct {
	*testing.T
	confiner *Confiner
	procs    *proc.Supervisor
	ws       string
}

// backendOf returns the backend that a test is about.
func backendOf(t testing.TB) Backend {
	if strings.HasPrefix(t.Name(), "TestBubblewrap/") {
		return BackendBubblewrap
	}
	return BackendNative
}

// All tests of sandboxes are about the native backend. Here they are about bubblewrap: some in make test, as the rows of conformance
// run on both backends, the others in make soak.
func TestBubblewrap(t *testing.T) {
	tests := map[string]func(*testing.T){
		"WritableWithPlaceholders": TestWritableWithPlaceholders, "StartErrors": TestStartErrors, "SwappedDirectory": TestSwappedDirectory,
		"ReplacedProgram": TestReplacedProgram, "DeniedProc": TestDeniedProc, "HostFilesKeepTheirModes": TestHostFilesKeepTheirModes, "Gate": TestGate,
		"LimitOfOpenFiles": TestLimitOfOpenFiles, "OwnProgram": TestOwnProgram,
	}
	if soak.Full() {
		maps.Copy(tests, map[string]func(*testing.T){
			"ReadOnly": TestReadOnly, "ReplacedDirectory": TestReplacedDirectory, "CancelledStart": TestCancelledStart,
			"ConcurrentStarts": TestConcurrentStarts, "DevicesKeepTheirModes": TestDevicesKeepTheirModes, "GateRefused": TestGateRefused,
			"GateWithMissingVariableIsRefused": TestGateWithMissingVariableIsRefused,
			"GateInServersNetworkIsRefused":    TestGateInServersNetworkIsRefused, "PlantedLinks": TestPlantedLinks,
			"RepointedPrivate": TestRepointedPrivate, "UserSocketsAreHidden": TestUserSocketsAreHidden, "UserSocketVanishes": TestUserSocketVanishes,
		})
	}
	for name, test := range tests {
		t.Run(name, test)
	}
}

// Automatic takes native sandboxes where they work, here also if bubblewrap is missing.
func TestAutomaticBackend(t *testing.T) {
	for _, dirs := range [][]string{nil, {"/nonexistent"}} {
		b := newFixture(t, func(c *Config) { c.Backend, c.BubblewrapDirs = BackendAuto, dirs })
		v, err := b.confiner.Support(t.Context())
		if err != nil || v.Problem != nil || !v.Native {
			t.Errorf("%+v, %v", v, err)
		}
	}
}

func newFixture(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	if _, err := bwrap.Find(bwrap.Dirs); err != nil && os.Getenv("CI") == "" {
		t.Skip("this needs bubblewrap:", err)
	}
	procs := proc.New(proc.Config{})
	t.Cleanup(procs.Close)
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Procs: procs, Shared: t.TempDir(), Own: t.TempDir(), Backend: backendOf(t)}
	if change != nil {
		change(&cfg)
	}
	c := New(cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fixture{t, c, procs, ws}
}

// intent parses the entries of a policy: "read /usr, write /work" or "read
// :root".
func intent(t testing.TB, network wire.NetworkAccess, entries string) *wire.Sandbox {
	t.Helper()
	s := wire.ReadOnly()
	s.Permissions.Network = network
	s.Permissions.FileSystem.Entries = nil
	for entry := range strings.SplitSeq(entries, ", ") {
		access, name, ok := strings.Cut(entry, " ")
		if !ok {
			continue
		}
		p := wire.SandboxPath{Type: wire.SandboxPathURI}
		if special, ok := strings.CutPrefix(name, ":"); ok {
			p = wire.SandboxPath{Type: wire.SandboxPathSpecial, Special: wire.SpecialPath{Kind: special}}
		} else if err := wire.Decode([]byte(`"`+wire.PathToURI(name)+`"`), &p.Path); err != nil {
			t.Fatal(err)
		}
		s.Permissions.FileSystem.Entries = append(s.Permissions.FileSystem.Entries, wire.SandboxEntry{Path: p, Access: wire.Access(access)})
	}
	return s
}

func (b *fixture) request(s *wire.Sandbox, argv ...string) Request {
	return Request{Intent: s, Spec: proc.Spec{Argv: argv, Dir: b.ws, Env: []string{"PATH=/usr/bin:/bin"}}}
}

// An outcome is a sink that keeps everything.
type outcome struct {
	mu   sync.Mutex
	text bytes.Buffer
	code int
}

func (o *outcome) Append(_ outlog.Stream, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	return nil
}
func (o *outcome) Exit(code int) { o.code = code }
func (o *outcome) Cut()          {}
func (o *outcome) Close()        {}

// run runs a confined command to its end.
func (b *fixture) run(r Request) (*outcome, error) {
	b.Helper()
	prepared, err := b.confiner.Prepare(b.Context(), r)
	if err != nil {
		return nil, err
	}
	o := new(outcome)
	p, err := prepared.Start(b.Context(), b.procs, o)
	if err != nil {
		return nil, err
	}
	<-p.Done()
	return o, nil
}

func (b *fixture) must(r Request) *outcome {
	b.Helper()
	o, err := b.run(r)
	if err != nil {
		b.Fatal(err)
	}
	return o
}

func TestReadOnly(t *testing.T) {
	b := newFixture(t, nil)
	o := b.must(b.request(intent(t, wire.NetworkRestricted, "read :root"), "sh", "-c", "exec 2>&1; pwd; touch new"))
	if o.code != 1 || !strings.Contains(o.text.String(), "Read-only file system") || !strings.HasPrefix(o.text.String(), b.ws+"\n") {
		t.Errorf("ended with %d: %s", o.code, o.text.String())
	}
}

func TestWritableWithPlaceholders(t *testing.T) {
	b := newFixture(t, nil)
	o := b.must(b.request(intent(t, wire.NetworkRestricted, "read :root, write "+b.ws), "sh", "-c", "echo new > new; mkdir .git; ls -A"))
	if o.code != 0 || !strings.Contains(o.text.String(), "File exists") || !strings.Contains(o.text.String(), ".codex") {
		t.Errorf("ended with %d: %s", o.code, o.text.String())
	}
	entries, err := os.ReadDir(b.ws)
	if err != nil || len(entries) != 1 || entries[0].Name() != "new" {
		t.Errorf("the workspace has %v, %v", entries, err)
	}
}

// readBelow makes so many directories in the workspace, and returns the entries of a policy in which they are read-only and the workspace can be
// written.
func (b *fixture) readBelow(count int) (entries string) {
	b.Helper()
	entries = "read :root, write " + b.ws
	for i := range count {
		dir := filepath.Join(b.ws, fmt.Sprint("d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		entries += ", read " + dir
	}
	return entries
}

// A sandbox with many mounts needs more descriptors than its command may have. The limit of the command is its own.
func TestManyMounts(t *testing.T) {
	b := newFixture(t, nil)
	entries := b.readBelow(300)
	few := b.must(b.request(intent(t, wire.NetworkRestricted, "read :root"), "sh", "-c", "ulimit -n"))
	o := b.must(b.request(intent(t, wire.NetworkRestricted, entries), "sh", "-c", "exec 2>&1; ulimit -n; echo x > f && echo x > d7/f; echo x > d299/f"))
	if limit, rest, _ := strings.Cut(o.text.String(), "\n"); limit+"\n" != few.text.String() || strings.Count(rest, "Read-only file system") != 2 {
		t.Errorf("ended with %d: %s; with few mounts: %s", o.code, o.text.String(), few.text.String())
	}
}

// A sandbox that needs more open files than this process may have is refused, with advice: by the server, which holds names, and by
// the native stage, which holds sources.
func TestTooManyEntries(t *testing.T) {
	b := newFixture(t, nil)
	entries := b.readBelow(200)
	r := b.request(intent(t, wire.NetworkRestricted, entries), "true")
	b.must(r) // makes what all starts need
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	lower := unix.Rlimit{Cur: 150, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	_, err := b.run(r)
	if _, ok := errors.AsType[*sandbox.UnenforceableError](err); !ok || !strings.Contains(err.Error(), "more open files than the limit of 150") {
		t.Errorf("refused: %v", err)
	}
	l := &launch{script: new(native.Script)}
	if err := l.explained(&stage.StepError{Errno: syscall.EMFILE, Address: 1}); err == nil || !strings.Contains(err.Error(), "the limit of 150") {
		t.Errorf("explained: %v", err)
	}
}

// A limit of open files is one of the command, not of the program that builds its sandbox.
func TestLimitOfOpenFiles(t *testing.T) {
	b := newFixture(t, nil)
	entries := b.readBelow(70)
	for shape, s := range map[string]string{"namespaces": entries, "filter": "write :root"} {
		r := b.request(intent(t, wire.NetworkRestricted, s), "sh", "-c", "ulimit -Sn; ulimit -Hn")
		r.Spec.Limits[proc.LimitFiles] = 64
		if o := b.must(r); o.code != 0 || o.text.String() != "64\n64\n" {
			t.Errorf("%s: ended with %d: %s", shape, o.code, o.text.String())
		}
	}
}

// Without file restrictions there is no bubblewrap, but the filter is there.
func TestFilterOnly(t *testing.T) {
	b := newFixture(t, func(c *Config) { c.Backend, c.BubblewrapDirs = BackendBubblewrap, []string{"/nonexistent"} })
	o := b.must(b.request(intent(t, wire.NetworkRestricted, "write :root"), "sh", "-c", "echo new > new && grep Seccomp: /proc/self/status"))
	if o.code != 0 || !strings.Contains(o.text.String(), "2") {
		t.Errorf("ended with %d: %s", o.code, o.text.String())
	}
	if _, err := b.run(b.request(intent(t, wire.NetworkRestricted, "read :root"), "true")); err == nil || !strings.Contains(err.Error(), "bubblewrap is not installed") ||
		!strings.Contains(err.Error(), "apt-get install bubblewrap") {
		t.Errorf("refused: %v", err)
	}
}

func TestStartErrors(t *testing.T) {
	b := newFixture(t, nil)
	notExecutable := filepath.Join(b.ws, "data")
	if err := os.WriteFile(notExecutable, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	everywhere := map[string]*wire.Sandbox{
		"namespaces": intent(t, wire.NetworkRestricted, "read :root, write "+b.ws),
		"filter":     intent(t, wire.NetworkRestricted, "write :root"),
	}
	for shape, s := range everywhere {
		for _, row := range []struct {
			argv string
			want syscall.Errno
		}{{"nothing-of-that-name", syscall.ENOENT}, {notExecutable, syscall.EACCES}, {"/", syscall.EACCES}} {
			t.Run(shape+row.argv, func(t *testing.T) {
				_, err := b.run(b.request(s, row.argv))
				start, ok := errors.AsType[*proc.StartError](err)
				if !ok || start.Err != row.want {
					t.Errorf("started: %v", err)
				}
			})
		}
	}
	r := b.request(everywhere["namespaces"], "true")
	r.Spec.Dir = filepath.Join(b.ws, "missing")
	if start, ok := errors.AsType[*proc.StartError](func() error { _, err := b.run(r); return err }()); !ok || start.Err != syscall.ENOENT {
		t.Errorf("started in a missing directory: %v", start)
	}
	if entries, _ := os.ReadDir(b.ws); len(entries) != 1 {
		t.Errorf("the workspace has %v", entries)
	}
}

// A command that names its own program gets this program, as without a sandbox. The stage of a native sandbox is no command, whatever it is called.
func TestOwnProgram(t *testing.T) {
	b := newFixture(t, nil)
	s := intent(t, wire.NetworkRestricted, "read :root, write "+b.ws)
	for _, name := range []string{"/proc/self/exe", "/proc/self//exe", "/proc/thread-self/exe"} {
		if o := b.must(b.request(s, name, "-test.run=^$")); o.code != 0 || !strings.Contains(o.text.String(), "PASS") {
			t.Errorf("%s: ended with %d: %s", name, o.code, o.text.String())
		}
	}
	if backendOf(t) != BackendNative {
		return
	}
	link := filepath.Join(b.ws, "link")
	if err := os.Symlink("/proc/self/exe", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/proc/2/exe", "/proc/self/fd/8", "/dev/fd/8", link, "exe"} {
		r := b.request(s, name, "-test.run=^$")
		r.Spec.Env = []string{"PATH=/usr/bin:/proc/self:/bin"}
		_, err := b.run(r)
		if start, ok := errors.AsType[*proc.StartError](err); !ok || start.Err != syscall.ENOENT {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.run(b.request(intent(t, wire.NetworkRestricted, "read :root, deny /proc"), "/proc/self/exe")); !isStartError(err) {
		t.Errorf("without /proc: %v", err)
	}
}

// If a directory is replaced by a link while its sandbox is built, the sandbox
// does not follow the link.
func TestSwappedDirectory(t *testing.T) {
	b := newFixture(t, nil)
	sub, outside := filepath.Join(b.ws, "sub"), t.TempDir()
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	prepared, err := b.confiner.Prepare(t.Context(), b.request(intent(t, wire.NetworkRestricted, "read :root, write "+sub), "touch", sub+"/escaped"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(sub, sub+".away"), os.Symlink(outside, sub)); err != nil {
		t.Fatal(err)
	}
	p, err := prepared.Start(t.Context(), b.procs, new(outcome))
	if err == nil {
		<-p.Done()
	}
	if _, ok := errors.AsType[*sandbox.UnenforceableError](err); !ok {
		t.Errorf("started: %v", err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("outside has %v", entries)
	}
}

// If the directory is replaced by another one, the command sees the directory
// that its sandbox was planned for, or does not start.
func TestReplacedDirectory(t *testing.T) {
	for _, descriptors := range []bool{true, false} {
		t.Run(fmt.Sprintf("descriptors=%v", descriptors), func(t *testing.T) {
			b := newFixture(t, nil)
			support, err := b.confiner.Support(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if descriptors && !support.Bubblewrap.Descriptors {
				t.Skip("this bubblewrap does not bind descriptors")
			}
			support.Bubblewrap.Descriptors = descriptors
			sub := filepath.Join(b.ws, "sub")
			if err := os.MkdirAll(filepath.Join(sub, "planned"), 0o755); err != nil {
				t.Fatal(err)
			}
			prepared, err := b.confiner.prepare(t.Context(), b.request(intent(t, wire.NetworkRestricted, "read :root, write "+b.ws+", read "+sub), "ls", sub), support)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Rename(sub, sub+".away"), os.Mkdir(sub, 0o755)); err != nil {
				t.Fatal(err)
			}
			o := new(outcome)
			p, err := prepared.Start(t.Context(), b.procs, o)
			if err == nil {
				<-p.Done()
			}
			switch {
			case descriptors && (err != nil || o.text.String() != "planned\n"):
				t.Errorf("started: %v, %s", err, o.text.String())
			case !descriptors && (err == nil || !strings.Contains(err.Error(), "not what was there when the sandbox was planned")):
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// A server keeps working if its program is replaced or removed, as by an
// upgrade.
func TestReplacedProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "self")
	if err := os.WriteFile(copied, text, 0o755); err != nil {
		t.Fatal(err)
	}
	b := newFixture(t, func(c *Config) { c.Self = copied })
	for _, becomes := range []string{"what it was", "#!/bin/sh\necho replaced", ""} {
		switch becomes {
		case "what it was":
		case "":
			err = os.Remove(copied)
		default:
			err = errors.Join(os.Remove(copied), os.WriteFile(copied, []byte(becomes), 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, policy := range []string{"read :root", "write :root"} {
			if o := b.must(b.request(intent(t, wire.NetworkRestricted, policy), "echo", "ran")); o.text.String() != "ran\n" {
				t.Errorf("with %s, when the program is %q: %d %s", policy, becomes, o.code, o.text.String())
			}
		}
	}
}

// If /proc is denied, the stage is executed by its path.
func TestDeniedProc(t *testing.T) {
	b := newFixture(t, nil)
	o := b.must(b.request(intent(t, wire.NetworkRestricted, "read :root, deny /proc"), "sh", "-c", "ls /proc"))
	if o.code == 0 || !strings.Contains(o.text.String(), "Permission denied") {
		t.Errorf("ended with %d: %s", o.code, o.text.String())
	}
}

// A cancelled start leaves nothing behind.
func TestCancelledStart(t *testing.T) {
	b := newFixture(t, nil)
	if _, err := b.confiner.Support(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := b.request(intent(t, wire.NetworkRestricted, "read :root, write "+b.ws), "sleep", "1000")
	for range 20 {
		prepared, err := b.confiner.Prepare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel() // at any time
		if p, err := prepared.Start(ctx, b.procs, new(outcome)); err == nil {
			p.Kill()
		}
		// A placeholder that another process has locked is removed a moment
		// later.
		for deadline := time.Now().Add(hang.Limit); ; time.Sleep(time.Millisecond) {
			entries, err := os.ReadDir(b.ws)
			if err == nil && len(entries) == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the workspace has %v (%v)", entries, err)
			}
		}
	}
	if n := len(b.confiner.builds); n > 0 {
		t.Errorf("%d builds are still counted", n)
	}
}

// Many starts at once in one workspace do not disturb each other.
func TestConcurrentStarts(t *testing.T) {
	b := newFixture(t, nil)
	r := b.request(intent(t, wire.NetworkRestricted, "read :root, write "+b.ws), "sh", "-c", "mkdir .git 2>/dev/null; test -d .git")
	var all sync.WaitGroup
	for range 3 * maxBuilds {
		all.Go(func() {
			if o, err := b.run(r); err != nil || o.code != 0 {
				t.Errorf("ended with %v, %v", o, err)
			}
		})
	}
	all.Wait()
	if entries, _ := os.ReadDir(b.ws); len(entries) > 0 {
		t.Errorf("the workspace has %v", entries)
	}
}

func TestAdvice(t *testing.T) {
	for _, row := range []struct {
		err  error
		want string
	}{
		{bwrap.ErrMissing, "apt-get install bubblewrap"},
		{bwrap.ErrOld, "0.5"},
		{bwrap.ErrUnsafe, "owner only"},
		{errors.New("else"), "tether doctor"},
	} {
		if got := toolAdvice(row.err); !strings.Contains(got, row.want) || strings.Contains(got, "restart") {
			t.Errorf("%v: %s", row.err, got)
		}
	}
}
