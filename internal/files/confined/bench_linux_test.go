package confined

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox/bwrap"
	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// closing closes the shared state of all tests before leaks are checked.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	if shared.close != nil {
		shared.close()
	}
	return code
}

// shared is the common state of all tests: finding out which sandbox works here
// takes longer than most tests.
var shared struct {
	once     sync.Once
	err      error
	procs    *proc.Supervisor
	confiner *confine.Confiner
	private  []string // a directory, a file, and a file behind a dangling link
	close    func()
}

// privateText is the content of all private files.
const privateText = "private text"

func share() {
	dir, err := os.MkdirTemp("", "tether-confined")
	if err != nil {
		shared.err = err
		return
	}
	own := filepath.Join(dir, "own")
	shared.private = []string{filepath.Join(dir, "private"), filepath.Join(dir, "token"), filepath.Join(dir, "link", "rotated")}
	shared.err = errors.Join(os.Mkdir(own, 0o700), os.Mkdir(shared.private[0], 0o700), os.Symlink("one", filepath.Join(dir, "link")),
		os.WriteFile(shared.private[0]+"/spool", []byte(privateText), 0o600), os.WriteFile(shared.private[1], []byte(privateText), 0o600))
	if shared.err != nil {
		return
	}
	shared.procs = proc.New(proc.Config{})
	shared.confiner = confine.New(confine.Config{Procs: shared.procs, Shared: dir, Own: own, Private: func() []string { return shared.private }})
	shared.close = func() {
		if shared.confiner != nil {
			shared.confiner.Close()
		}
		shared.procs.Close()
		os.RemoveAll(dir)
	}
}

// A fixture is a pool with everything that it needs, a workspace and a
// directory outside.
type fixture struct {
	testing.TB
	pool     *Pool
	confiner *confine.Confiner
	procs    *proc.Supervisor
	ws, out  string
}

func newFixture(t testing.TB, change func(*Config)) *fixture {
	t.Helper()
	if _, err := bwrap.Find(bwrap.Dirs); err != nil && os.Getenv("CI") == "" {
		t.Skip("this needs bubblewrap:", err)
	}
	shared.once.Do(share)
	b := &fixture{TB: t, procs: shared.procs, confiner: shared.confiner}
	b.must(shared.err)
	cfg := Config{Confiner: b.confiner, Procs: b.procs}
	if change != nil {
		change(&cfg)
	}
	b.pool = New(cfg)
	t.Cleanup(b.pool.Close)
	base, err := filepath.EvalSymlinks(t.TempDir())
	b.must(err)
	b.ws, b.out = filepath.Join(base, "ws"), filepath.Join(base, "out")
	for _, dir := range []string{b.ws, b.ws + "/sub", b.out} {
		b.must(os.Mkdir(dir, 0o755))
	}
	b.write(b.ws+"/a.txt", "inside")
	b.write(b.out+"/secret.txt", "outside")
	b.must(os.Symlink(b.out+"/secret.txt", b.ws+"/filelink"))
	b.must(os.Symlink(b.out, b.ws+"/dirlink"))
	b.must(os.Link(b.out+"/secret.txt", b.ws+"/hardlink"))
	return b
}

func (b *fixture) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *fixture) write(path, text string) {
	b.Helper()
	b.must(os.WriteFile(path, []byte(text), 0o600))
}

func (b *fixture) exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// intent parses the entries of a policy, such as "read :root, write $WS, glob
// /x/*".
func (b *fixture) intent(entries string) *wire.Sandbox {
	b.Helper()
	s := &wire.Sandbox{
		WindowsSandboxLevel: wire.WindowsDisabled,
		Permissions: wire.Permissions{
			Type: wire.PermissionsManaged, Network: wire.NetworkEnabled,
			FileSystem: wire.FileSystemPolicy{Type: wire.FileSystemRestricted},
		},
	}
	cwd := b.uri(b.ws)
	s.Cwd, s.WorkspaceRoots = &cwd, []wire.PathURI{cwd}
	for entry := range strings.SplitSeq(entries, ", ") {
		access, name, _ := strings.Cut(entry, " ")
		name = strings.NewReplacer("$WS", b.ws, "$OUT", b.out).Replace(name)
		p := wire.SandboxPath{Type: wire.SandboxPathURI}
		switch special, ok := strings.CutPrefix(name, ":"); {
		case ok:
			p = wire.SandboxPath{Type: wire.SandboxPathSpecial, Special: wire.SpecialPath{Kind: special}}
		case access == "glob":
			access, p = "deny", wire.SandboxPath{Type: wire.SandboxPathGlob, Pattern: name}
		default:
			p.Path = b.uri(name)
		}
		s.Permissions.FileSystem.Entries = append(s.Permissions.FileSystem.Entries, wire.SandboxEntry{Path: p, Access: wire.Access(access)})
	}
	return s
}

func (b *fixture) uri(path string) wire.PathURI {
	b.Helper()
	uri, err := wire.ParsePathURI(wire.PathToURI(path))
	b.must(err)
	return uri
}

// Policies of the specification's table.
const (
	readOnly    = "read :root"                               // RO
	workspace   = "read :root, write :project_roots"         // WN
	denyOut     = workspace + ", deny $OUT"                  // WN+d($OUT)
	minimalRead = "read :minimal, read :project_roots"       // MR
	minimalRW   = "read :minimal, write :project_roots"      // MW
	rootDeny    = "write :root, deny $OUT"                   // root write, narrowed
	hidden      = "read :root, write $WS, glob $WS/**/*.env" // with a pattern
)

func (b *fixture) files(entries string) files.Files {
	b.Helper()
	files, err := b.pool.Files(b.Context(), b.intent(entries))
	b.must(err)
	return files
}

// read reads a whole file.
func (b *fixture) read(files files.Files, path string, follow bool) (string, error) {
	f, err := files.Open(b.Context(), path, follow)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return string(data), err
}

// only returns the only helper of the pool.
func (b *fixture) only() *worker {
	b.Helper()
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if len(b.pool.helpers) != 1 {
		b.Fatalf("there are %d helpers", len(b.pool.helpers))
	}
	for _, h := range b.pool.helpers {
		return h
	}
	return nil
}

// gone waits until a helper has ended.
func (b *fixture) gone(h *worker) {
	b.Helper()
	select {
	case <-h.process.Done():
	case <-time.After(10 * time.Second):
		b.Fatal("the helper does not end")
	}
}

func BenchmarkWarm(b *testing.B) {
	env := newFixture(b, nil)
	kib := make([]byte, 1024)
	env.write(env.ws+"/kib", string(kib))
	env.write(env.ws+"/big", string(make([]byte, 8<<20)))
	b.Run("read 1 KiB", func(b *testing.B) {
		for b.Loop() {
			if _, err := env.read(env.files(denyOut), env.ws+"/kib", true); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read 1 KiB directly", func(b *testing.B) {
		for b.Loop() {
			if _, err := env.read(env.files(readOnly), env.ws+"/kib", true); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write 1 KiB", func(b *testing.B) {
		for b.Loop() {
			if err := env.files(workspace).WriteFile(b.Context(), env.ws+"/new", kib, true); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read 8 MiB", func(b *testing.B) {
		buffer := make([]byte, 8<<20)
		for b.Loop() {
			f, err := env.files(denyOut).Open(b.Context(), env.ws+"/big", true)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(f, buffer); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
}
