package shellsnap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/proc"
)

// Concurrent calls for a key get the result of one capture.
func TestOneCapturePerKey(t *testing.T) {
	b := newBench(t, map[string]string{".bash_profile": counting + "read -r _ <\"$HOME/go\""})
	if err := makeFifo(filepath.Join(b.home, "go")); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	var got [5]*Snapshot
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() { got[i] = b.get("bash") })
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if s := b.cache.Get(gone, "bash", b.shell("bash")); s != nil {
		t.Error("a Get whose context has ended has waited")
	}
	go func() { // ends when the shell reads
		f, err := os.OpenFile(filepath.Join(b.home, "go"), os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
	}()
	group.Wait()
	for i := range got {
		if got[i] == nil || got[i] != got[0] {
			t.Errorf("snapshot %d is %p, the first is %p", i, got[i], got[0])
		}
	}
	if n := b.reads(); n != 1 {
		t.Errorf("start-up files were read %d times", n)
	}
}

// A shell that cannot be captured is not tried again.
func TestNoSnapshot(t *testing.T) {
	for name, profile := range map[string]string{
		"exit":           "exit 0",
		"exec":           "exec true",
		"closed output":  "exec >&-",
		"no execution":   "set -n",
		"trap":           "trap 'echo bye' EXIT",
		"debug trap":     "trap 'echo step' DEBUG",
		"too much":       "head -c 2000000 /dev/zero",
		"failing option": "set -e; false",
		"trace in it":    "BASH_XTRACEFD=1; set -x",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, map[string]string{".bash_profile": counting + profile})
			for range 2 {
				if s := b.get("bash"); s != nil {
					t.Errorf("there is a snapshot: %+v", s)
				}
			}
			if n := b.reads(); n != 1 {
				t.Errorf("start-up files were read %d times", n)
			}
		})
	}
}

// A shell that cannot list its functions, or is of another kind than its name says,
// has no snapshot.
func TestOtherShell(t *testing.T) {
	if _, err := os.Stat("/bin/dash"); err != nil {
		t.Skip("no dash here")
	}
	for _, kind := range []Kind{Bash, Sh, Zsh} {
		b := newBench(t, map[string]string{".profile": "f() { echo f; }"})
		shell := b.shell("bash")
		shell.Kind, shell.Path = kind, "/bin/dash"
		if s := b.cache.Get(t.Context(), "key", shell); s != nil {
			t.Errorf("dash has a snapshot as %s", kind)
		}
	}
}

// Output of start-up files does no harm.
func TestNoise(t *testing.T) {
	shells(t, func(t *testing.T, name string) {
		b := newBench(t, map[string]string{profiles[name]: "echo noise; printf '\\0\\1\\0'; echo error >&2; export A=1\n"})
		if s := b.get(name); s == nil || s.Set["A"] != "1" {
			t.Errorf("got %+v", s)
		}
	})
}

// Processes that start-up files put into the background do not delay the capture,
// and are passed to Left.
func TestBackground(t *testing.T) {
	b := newBench(t, map[string]string{".bash_profile": "sleep 1000 & export PID=$!\n"})
	shell := b.shell("bash")
	left := make(chan *proc.Process, 1)
	shell.Left = func(p *proc.Process) { left <- p }
	s := b.cache.Get(t.Context(), "key", shell)
	if s == nil {
		t.Fatal("no snapshot")
	}
	p := <-left
	if !p.Leftovers() {
		t.Error("no process was passed to Left")
	}
	if err := exists(s.Set["PID"]); err != nil {
		t.Errorf("the background process is gone: %v", err)
	}
	p.Kill()
}

// A capture ends at its time limit, and no process of it is left.
func TestHang(t *testing.T) {
	b := newBench(t, map[string]string{".bash_profile": counting + "sleep 1000\n"})
	shell := b.shell("bash")
	shell.Time = time.Second
	for range 2 {
		if s := b.cache.Get(t.Context(), "key", shell); s != nil {
			t.Error("there is a snapshot")
		}
	}
	b.cache.Close()
	if n := b.reads(); n > 1 || len(b.left) > 0 { // on a slow machine the shell may not get there
		t.Errorf("start-up files were read %d times, %d shells are left", n, len(b.left))
	}
}

// Close ends captures.
func TestCloseEndsCapture(t *testing.T) {
	b := newBench(t, map[string]string{".bash_profile": "echo started >\"$HOME/started\"; sleep 1000\n"})
	result := make(chan *Snapshot)
	shell := b.shell("bash")
	begun := make(chan struct{})
	start := shell.Start
	shell.Start = func(ctx context.Context, argv []string, sink proc.Sink) (*proc.Process, error) {
		defer close(begun)
		return start(ctx, argv, sink)
	}
	go func() { result <- b.cache.Get(t.Context(), "key", shell) }()
	<-begun
	b.cache.Close()
	if s := <-result; s != nil {
		t.Error("there is a snapshot")
	}
	if s := b.cache.Get(t.Context(), "key", shell); s != nil {
		t.Error("a closed cache has a snapshot")
	}
}

// A shell that could not be started is tried again.
func TestNotStarted(t *testing.T) {
	b := newBench(t, nil)
	shell := b.shell("bash")
	start, missing := shell.Start, errors.New("missing")
	shell.Start = func(context.Context, []string, proc.Sink) (*proc.Process, error) { return nil, missing }
	if s := b.cache.Get(t.Context(), "key", shell); s != nil {
		t.Error("there is a snapshot")
	}
	shell.Start = start
	if s := b.cache.Get(t.Context(), "key", shell); s == nil {
		t.Error("there is no snapshot")
	}
}

// A full cache forgets the least recently used snapshot.
func TestForgetsOldest(t *testing.T) {
	b := newBench(t, map[string]string{".bash_profile": counting})
	shell := b.shell("bash")
	get := func(i int) (captured bool) {
		before := b.reads()
		if b.cache.Get(t.Context(), fmt.Sprint(i), shell) == nil {
			t.Fatalf("no snapshot %d", i)
		}
		return b.reads() > before
	}
	for i := range MaxSnapshots {
		get(i)
	}
	get(0)
	get(MaxSnapshots) // replaces 1
	if get(0) {
		t.Error("the most recently used snapshot was forgotten")
	}
	if !get(1) {
		t.Error("there are too many")
	}
	if n := len(b.cache.entries); n != MaxSnapshots {
		t.Errorf("%d entries", n)
	}
}

// No output of start-up files makes parse panic, and an accepted snapshot can be
// restored.
func FuzzParse(f *testing.F) {
	const mark = "m"
	whole := heading(mark, sectionOptions) + "set -o errexit\n" + heading(mark, sectionTraps) + heading(mark, sectionMask) + "0022\n" +
		heading(mark, sectionFeatures) + "shopt -s extglob\n" + heading(mark, sectionFunctions) + "f () \n{ \n    :\n}\n" +
		heading(mark, sectionExported) + "declare -fx f\n" + heading(mark, sectionAliases) + "alias a='b'\n" +
		heading(mark, sectionEnv) + "A=1\x00B=two\nlines\x00" + heading(mark, sectionEnd)
	f.Add([]byte(whole))
	f.Add([]byte(strings.Replace(whole, heading(mark, sectionExported)+"declare -fx f\n", "", 1)))
	f.Add([]byte("noise" + whole[:len(whole)/2]))
	f.Fuzz(func(t *testing.T, output []byte) {
		for _, kind := range []Kind{Bash, Zsh, Sh} {
			s, err := parse(kind, mark, []string{"A=0", "C=3"}, output)
			if (s == nil) == (err == nil) {
				t.Fatalf("snapshot %v, error %v", s, err)
			}
			if s == nil {
				continue
			}
			argv, env := s.Restore([]string{"sh", "-lc", "script", "zero"}, always)
			if len(argv) != 4 || !strings.HasSuffix(strings.TrimSuffix(argv[2], "'"), "script") {
				t.Errorf("restored command: %q", argv)
			}
			for _, v := range append(env, argv...) {
				if strings.ContainsRune(v, 0) {
					t.Errorf("a zero byte is in %q", v)
				}
			}
		}
	})
}
