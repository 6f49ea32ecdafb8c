package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/wire"
)

// A place is a directory with a file, f, and a directory, d.
type place struct {
	*testing.T
	dir string
}

func newPlace(t *testing.T) place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := place{T: t, dir: filepath.Join(dir, "place")}
	p.must(os.MkdirAll(p.at("d"), 0o755), os.WriteFile(p.at("f"), []byte("x"), 0o644))
	return p
}

// at returns the path of a name; an absolute path stays.
func (p place) at(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.dir, name)
}

func (p place) must(errs ...error) {
	p.Helper()
	for _, err := range errs {
		if err != nil {
			p.Fatal(err)
		}
	}
}

func (p place) create(name string) { p.Helper(); p.must(os.WriteFile(p.at(name), nil, 0o644)) }
func (p place) mkdir(name string)  { p.Helper(); p.must(os.MkdirAll(p.at(name), 0o755)) }
func (p place) remove(name string) { p.Helper(); p.must(os.RemoveAll(p.at(name))) }
func (p place) rename(from, to string) {
	p.Helper()
	p.must(os.Rename(p.at(from), p.at(to)))
}
func (p place) link(target, name string) { p.Helper(); p.must(os.Symlink(target, p.at(name))) }
func (p place) chmod(name string, mode os.FileMode) {
	p.Helper()
	p.must(os.Chmod(p.at(name), mode))
}

// watch sets up a watch without its goroutine.
func (p place) watch(missing []string, present string) (*inotifyWatch, error) {
	p.Helper()
	var paths []string
	for _, name := range missing {
		paths = append(paths, p.at(name))
	}
	if present != "" {
		present = p.at(present)
	}
	w, err := newWatch(paths, present)
	if err == nil {
		p.Cleanup(w.cancel)
	}
	return w, err
}

// fires reports whether an event so far fires the watch. The kernel queues events
// before the call that causes them returns.
func (p place) fires(w *inotifyWatch) bool {
	p.Helper()
	raw, err := w.file.SyscallConn()
	p.must(err)
	buffer := make([]byte, eventBuffer)
	for {
		var n int
		p.must(raw.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buffer)
			return true
		}))
		if err == unix.EAGAIN {
			return false
		}
		p.must(err)
		if w.anyMatters(buffer[:n]) {
			return true
		}
	}
}

func TestFires(t *testing.T) {
	past := time.Unix(1e9, 0)
	tests := []struct {
		name    string
		missing []string
		present string
		act     func(place)
		want    bool
	}{
		{"file", []string{"m"}, "", func(p place) { p.create("m") }, true},
		{"directory", []string{"m"}, "", func(p place) { p.mkdir("m") }, true},
		{"dangling link", []string{"m"}, "", func(p place) { p.link("nowhere", "m") }, true},
		{"renamed", []string{"m"}, "", func(p place) { p.rename("f", "m") }, true},
		{"hard link", []string{"m"}, "", func(p place) { p.must(os.Link(p.at("f"), p.at("m"))) }, true},
		{"last of several", []string{"a", "d/b", "m"}, "", func(p place) { p.create("m") }, true},
		{"other directory", []string{"a", "d/b", "m"}, "", func(p place) { p.create("d/b") }, true},
		{"ancestor", []string{"m/n/o"}, "", func(p place) { p.mkdir("m") }, true},
		{"siblings", []string{"m", "d/m"}, "", func(p place) { p.create("x"); p.remove("f"); p.create("d/x"); p.mkdir("mm") }, false},
		{"parent moved", []string{"d/m"}, "", func(p place) { p.rename("d", "e") }, true},
		{"parent removed", []string{"d/m"}, "", func(p place) { p.remove("d") }, true},
		{"parent replaced", []string{"d/m"}, "", func(p place) { p.mkdir("e"); p.must(unix.Rename(p.at("e"), p.at("d"))) }, true},
		{"parent's rights", []string{"d/m"}, "", func(p place) { p.chmod("d", 0o700) }, true},
		{"parent's time", []string{"d/m"}, "", func(p place) { p.must(os.Chtimes(p.at("d"), past, past)) }, false},
		{"grandparent moved", []string{"d/m"}, "", func(p place) { p.rename(p.dir, p.dir+"2") }, true},

		{"written", []string{"m"}, "f", func(p place) { p.must(os.WriteFile(p.at("f"), []byte("x"), 0)) }, true},
		{"emptied", []string{"m"}, "f", func(p place) { p.must(os.Truncate(p.at("f"), 0)) }, true},
		{"mode", []string{"m"}, "f", func(p place) { p.chmod("f", 0o600) }, true},
		{"time", []string{"m"}, "f", func(p place) { p.must(os.Chtimes(p.at("f"), past, past)) }, true},
		{"removed", []string{"m"}, "f", func(p place) { p.remove("f") }, true},
		{"replaced", []string{"m"}, "f", func(p place) { p.create("g"); p.rename("g", "f") }, true},
		{"read", []string{"m"}, "f", func(p place) { _, err := os.ReadFile(p.at("f")); p.must(err) }, false},
		{"another link", []string{"m"}, "f", func(p place) { p.must(os.Link(p.at("f"), p.at("g"))) }, false},
		{"moved with its directory", []string{"m"}, "d", func(p place) { p.rename(p.dir, p.dir+"2") }, true},

		{"children", []string{"m"}, "d", func(p place) { p.create("d/x"); p.mkdir("d/y"); p.remove("d/x") }, false},
		{"child written", []string{"d/m"}, "d", func(p place) {
			p.create("d/x")
			p.must(os.WriteFile(p.at("d/x"), []byte("y"), 0))
			p.chmod("d/x", 0o600)
		}, false},
		{"missing child", []string{"d/m"}, "d", func(p place) { p.create("d/m") }, true},
		{"directory's mode", []string{"m"}, "d", func(p place) { p.chmod("d", 0o700) }, true},
		{"directory removed", []string{"m"}, "d", func(p place) { p.remove("d") }, true},
		{"directory moved", []string{"m"}, "d", func(p place) { p.rename("d", "e") }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			w, err := p.watch(tt.missing, tt.present)
			p.must(err)
			if p.fires(w) {
				t.Fatal("fires before anything has changed")
			}
			tt.act(p)
			if got := p.fires(w); got != tt.want {
				t.Errorf("fires: %v, want %v", got, tt.want)
			}
		})
	}
}

// A directory that a process still uses keeps its watch when it is removed.
func TestFiresForADirectoryInUse(t *testing.T) {
	p := newPlace(t)
	used, err := os.Open(p.at("d"))
	p.must(err)
	defer used.Close()
	w, err := p.watch([]string{"d/m"}, "")
	p.must(err)
	p.remove("d")
	if !p.fires(w) {
		t.Error("does not fire")
	}
}

func TestRefuses(t *testing.T) {
	deep := strings.TrimSuffix(strings.Repeat("x/", unix.PathMax/2), "/")
	tests := []struct {
		name, missing, present string
		prepare                func(place)
	}{
		{"file", "f", "", nil},
		{"directory", "d", "", nil},
		{"root", "/", "", nil},
		{"nothing present", "m", "n", nil},
		{"file in the way", "f/m", "", nil},
		{"through a link", "l/m", "", func(p place) { p.link("d", "l") }},
		{"link", "l", "", func(p place) { p.link("nowhere", "l") }},
		{"through a dangling link", "l/m", "", func(p place) { p.link("nowhere", "l") }},
		{"present link", "m", "l", func(p place) { p.link("f", "l") }},
		{"present through a link", "m", "l/x", func(p place) { p.link("d", "l"); p.create("d/x") }},
		{"procfs", "/proc/no-such-name", "", nil},
		{"sysfs", "/sys/no-such-name", "", nil},
		{"long name", strings.Repeat("n", 300), "", nil},
		{"long path", deep, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			if tt.prepare != nil {
				tt.prepare(p)
			}
			if _, err := p.watch([]string{tt.missing}, tt.present); err == nil {
				t.Error("watches")
			}
		})
	}
}

func TestBoundsWatches(t *testing.T) {
	p := newPlace(t)
	var missing []string
	for i := range MaxPaths {
		dir := fmt.Sprintf("d/%d%s", i, strings.Repeat("/x", maxInotify/MaxPaths))
		p.mkdir(dir)
		missing = append(missing, dir+"/m")
	}
	if _, err := p.watch(missing, ""); err != errTooMany {
		t.Errorf("got %v, want %v", err, errTooMany)
	}
}

// After an overflow of the queue the watch fires.
func TestFiresOnOverflow(t *testing.T) {
	p := newPlace(t)
	w, err := p.watch([]string{"m"}, "")
	p.must(err)
	event := make([]byte, unix.SizeofInotifyEvent)
	copy(event, "\xff\xff\xff\xff")
	event[5] = unix.IN_Q_OVERFLOW >> 8
	if !w.anyMatters(event) {
		t.Error("does not fire")
	}
}

// A change between the look at a path and its watch is no event; the second look
// must find it.
func TestChangesDuringSetUp(t *testing.T) {
	tests := map[string]struct {
		present string
		act     func(place)
	}{
		"appears":          {"", func(p place) { p.create("d/m") }},
		"parent swapped":   {"", func(p place) { p.rename("d", "e"); p.mkdir("d") }},
		"parent removed":   {"", func(p place) { p.remove("d") }},
		"parent is a link": {"", func(p place) { p.rename("d", "e"); p.link("e", "d") }},
		"present written":  {"f", func(p place) { p.must(os.WriteFile(p.at("f"), []byte("yy"), 0)) }},
		"present removed":  {"f", func(p place) { p.remove("f") }},
	}
	defer func() { lookedAt = func(string) {} }()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			target := tt.present
			if target == "" {
				target = "d/m"
			}
			lookedAt = func(path string) {
				if path == p.at(target) {
					tt.act(p)
				}
			}
			if _, err := p.watch([]string{"d/m"}, tt.present); err == nil {
				t.Error("watches")
			}
		})
	}
}

// If a path is created and removed while watches are set up, no change is missed:
// the watch is refused, or it fires at the next creation.
func TestSetUpWhilePathsChange(t *testing.T) {
	p := newPlace(t)
	var w Watcher
	defer w.Close()
	for id := range uint64(200) {
		appeared := make(chan struct{})
		go func() {
			defer close(appeared)
			p.mkdir("d/a/b")
		}()
		fired := make(chan uint64, 1)
		watching := w.Watch(p.params(id+1, "", "d/a/b/m", "d/a/b"), func(id uint64) { fired <- id })
		<-appeared
		if watching {
			p.wait(fired, id+1)
		}
		p.remove("d/a")
	}
}

func (p place) params(id uint64, present string, missing ...string) *wire.WatchMissingParams {
	p.Helper()
	uri := func(name string) wire.PathURI {
		u, err := wire.ParsePathURI(wire.PathToURI(p.at(name)))
		p.must(err)
		return u
	}
	params := &wire.WatchMissingParams{WatchID: id}
	for _, name := range missing {
		params.Missing = append(params.Missing, uri(name))
	}
	if present != "" {
		u := uri(present)
		params.Present = &u
	}
	return params
}

// eventTime bounds the wait for an event that must come.
const eventTime = 10 * time.Second

func (p place) wait(fired chan uint64, want uint64) {
	p.Helper()
	select {
	case got := <-fired:
		if got != want {
			p.Errorf("watch %d fired, want %d", got, want)
		}
	case <-time.After(eventTime):
		p.Fatalf("watch %d does not fire", want)
	}
}

func TestWatcher(t *testing.T) {
	p := newPlace(t)
	var w Watcher
	fired := make(chan uint64, 10)
	changed := func(id uint64) { fired <- id }
	watch := func(id uint64, missing ...string) bool { return w.Watch(p.params(id, "", missing...), changed) }

	if watch(0, "m") {
		t.Error("0 is above nothing")
	}
	if !watch(5, "m") || watch(5, "n") || watch(4, "n") {
		t.Error("ids have to grow")
	}
	p.create("m")
	p.wait(fired, 5) // the refused watches did not replace it

	p.remove("m")
	if !watch(6, "m") || watch(7, "f") {
		t.Error("a path that exists is watched")
	}
	if watch(7, "m") {
		t.Error("the id of a refused watch counts")
	}
	p.create("m") // watch 7 replaced watch 6
	if !watch(8, "n") || !watch(9, "o") {
		t.Error("a watch cannot be replaced")
	}
	p.create("n")
	p.create("o")
	p.wait(fired, 9)

	many := make([]string, MaxPaths+1)
	for i := range many {
		many[i] = fmt.Sprintf("many%d", i)
	}
	if watch(10) || watch(11, many...) || !watch(12, many[1:]...) {
		t.Error("wrong limits")
	}
	if w.Watch(p.params(13, "gone", "m2"), changed) || !w.Watch(p.params(14, "f", "m2"), changed) {
		t.Error("a wrong state of the present path is accepted")
	}
	foreign, err := wire.ParsePathURI("file:///C:/x")
	p.must(err)
	if w.Watch(&wire.WatchMissingParams{WatchID: 15, Missing: []wire.PathURI{foreign}}, changed) {
		t.Error("watches a foreign path")
	}
	if !watch(16, "last") {
		t.Error("the largest id is refused")
	}
	w.Close()
	p.create("last")
	if watch(17, "never") {
		t.Error("watches after Close")
	}
	select {
	case id := <-fired:
		t.Errorf("watch %d fired too", id)
	default:
	}
}
