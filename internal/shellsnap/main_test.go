package shellsnap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/proc"
)

func TestMain(m *testing.M) {
	if err := proc.ResetInherited(); err != nil { // under nohup, each shell would have a trap for SIGHUP
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// A bench is a home directory with start-up files, and a supervisor that runs
// shells there.
type bench struct {
	t     *testing.T
	home  string
	procs *proc.Supervisor
	cache *Cache

	mu   sync.Mutex
	left []*proc.Process
}

// newBench makes a home directory; files are its start-up files by name.
func newBench(t *testing.T, files map[string]string) *bench {
	t.Helper()
	b := &bench{t: t, home: t.TempDir(), procs: proc.New(proc.Config{}), cache: NewCache(slog.New(slog.DiscardHandler))}
	t.Cleanup(func() {
		b.cache.Close()
		b.procs.Close()
	})
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(b.home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) env() []string {
	return []string{"HOME=" + b.home, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "GIVEN=given"}
}

// shell returns a shell of the bench, by its name.
func (b *bench) shell(name string) *Shell {
	b.t.Helper()
	return &Shell{
		Kind: Kind(name), Path: b.program(name), Env: b.env(),
		Start: func(ctx context.Context, argv []string, sink proc.Sink) (*proc.Process, error) {
			return b.procs.Start(ctx, proc.Spec{Argv: argv, Dir: b.home, Env: b.env()}, sink)
		},
		Left: func(p *proc.Process) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.left = append(b.left, p)
		},
	}
}

// program finds a shell. Its sh is bash under that name.
func (b *bench) program(name string) string {
	b.t.Helper()
	look := name
	if name == "sh" {
		look = "bash"
	}
	path, err := exec.LookPath(look)
	if err != nil {
		b.t.Skipf("no %s here", look)
	}
	if name != "sh" {
		return path
	}
	link := filepath.Join(b.home, "sh")
	if err := os.Symlink(path, link); err != nil && !errors.Is(err, os.ErrExist) {
		b.t.Fatal(err)
	}
	return link
}

func always(string) bool { return true }

// get captures a shell once per name.
func (b *bench) get(name string) *Snapshot {
	b.t.Helper()
	return b.cache.Get(b.t.Context(), name, b.shell(name))
}

// run runs a script and returns what a client would see: from the snapshot, or in a
// login shell if plain is true.
func (b *bench) run(name string, plain bool, script string, args ...string) string {
	b.t.Helper()
	argv, env := append([]string{b.program(name), "-lc", script}, args...), b.env()
	if !plain {
		s := b.get(name)
		if s == nil {
			b.t.Fatalf("%s has no snapshot", name)
		}
		var more []string
		argv, more = s.Restore(argv, always)
		env = append(env, more...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = b.home, env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		b.t.Fatal(err)
	}
	return fmt.Sprintf("%s%sexit %d", &out, &errs, cmd.ProcessState.ExitCode())
}

// reads counts how often start-up files with the line counting were read.
func (b *bench) reads() int {
	text, _ := os.ReadFile(filepath.Join(b.home, "count"))
	return strings.Count(string(text), "x")
}

const counting = "echo x >>\"$HOME/count\"\n"
