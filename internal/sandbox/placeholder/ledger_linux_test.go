package placeholder

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAcquireAndRelease(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	h := b.hold(l, b.dir(".git"), b.file("nope"))
	b.there(".git", "nope")
	for name, mode := range map[string]fs.FileMode{".git": fs.ModeDir | 0o755, "nope": 0o644} {
		if info, err := os.Lstat(b.path(name)); err != nil || info.Mode() != mode || !info.IsDir() && info.Size() != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	h.Release()
	h.Release()
	b.there()
	b.clean()
	if len(l.names) != 0 {
		t.Errorf("names left: %v", l.names)
	}
	b.hold(l).Release()
}

// The order of release does not matter, nor to which server a Lease belongs.
func TestLastReleaseRemoves(t *testing.T) {
	for _, two := range []bool{false, true} {
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
			t.Run(fmt.Sprint(two, order), func(t *testing.T) {
				b := newFixture(t)
				l := b.open()
				other := l
				if two {
					other = b.open()
				}
				holds := []*Lease{b.hold(l, b.dir(".git")), b.hold(other, b.dir(".git"), b.dir(".aws")), b.hold(l, b.dir(".git"))}
				for n, i := range order {
					if _, err := os.Lstat(b.path(".git")); err != nil {
						t.Fatalf("before release %d: %v", n, err)
					}
					holds[i].Release()
					holds[i].Release()
				}
				b.there()
				b.clean()
			})
		}
	}
}

func TestOpenKeepsPlaceholdersInUse(t *testing.T) {
	b := newFixture(t)
	h := b.hold(b.open(), b.dir(".git"))
	b.open()
	b.there(".git")
	h.Release()
	b.there()
}

func TestClose(t *testing.T) {
	b := newFixture(t)
	l, other := b.open(), b.open()
	h := b.hold(l, b.dir(".git"), b.dir(".aws"))
	shared := b.hold(other, b.dir(".git"))
	b.must(l.Close())
	b.there(".git")
	h.Release()
	b.there(".git")
	if _, err := l.Acquire([]Want{b.dir(".codex")}); !errors.Is(err, ErrClosed) {
		t.Errorf("Acquire after Close: %v", err)
	}
	b.must(l.Close())
	shared.Release()
	b.there()
	b.clean()
}

func TestRealName(t *testing.T) {
	for name, create := range map[string]func(string) error{
		"dir":  func(p string) error { return os.Mkdir(p, 0o755) },
		"file": func(p string) error { return os.WriteFile(p, nil, 0o644) },
		"link": func(p string) error { return os.Symlink("/", p) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.must(create(b.path("x")))
			l := b.open()
			for _, want := range []Want{b.dir("x"), b.file("x")} {
				if _, err := l.Acquire([]Want{b.dir(".git"), want}); !isChanged(err) || !strings.Contains(err.Error(), want.Path) {
					t.Errorf("Acquire: %v", err)
				}
			}
			if l.Holds(b.path("x")) {
				t.Error("taken for a placeholder")
			}
			b.there("x")
			b.clean()
		})
	}
}

func TestKind(t *testing.T) {
	b := newFixture(t)
	l, other := b.open(), b.open()
	h := b.hold(l, b.dir("x"))
	for _, ledger := range []*Ledger{l, other} {
		_, err := ledger.Acquire([]Want{b.file("x")})
		if _, ok := errors.AsType[*KindError](err); !ok {
			t.Errorf("Acquire: %v", err)
		}
	}
	h.Release()
	b.there()
	b.clean()
}

func TestInvalidPaths(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.must(os.WriteFile(b.path("file"), nil, 0o644))
	for path, want := range map[string]error{
		"relative":                   nil,
		"/":                          nil,
		b.ws + "/":                   nil,
		b.ws + "/a/../b":             nil,
		b.path("missing/.git"):       unix.ENOENT,
		b.path("file/.git"):          unix.ENOTDIR,
		"/proc/placeholder-test":     unix.ENOENT,
		b.path("s" + longName + "x"): unix.ENAMETOOLONG,
	} {
		_, err := l.Acquire([]Want{b.dir(".git"), {Path: path, Dir: true}})
		if err == nil || !strings.Contains(err.Error(), path) || want != nil && !errors.Is(err, want) {
			t.Errorf("Acquire(%q): %v", path, err)
		}
		b.there("file")
		b.clean()
	}
}

var longName = strings.Repeat("o", 300)

// Root may write anywhere, so the test takes another user's file system
// rights.
func TestUnwritableParent(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.must(os.MkdirAll(b.path("mine"), 0o755))
	b.must(os.MkdirAll(b.path("theirs"), 0o555))
	if os.Geteuid() == 0 {
		const nobody = 65534
		for _, dir := range []string{filepath.Dir(b.ws), filepath.Dir(filepath.Dir(b.registry))} {
			b.must(os.Chmod(dir, 0o755))
		}
		b.must(os.Chown(b.path("mine"), nobody, nobody))
		b.must(os.Chown(b.registry, nobody, nobody))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		b.must(unix.Setfsuid(nobody)) // this thread only
		defer unix.Setfsuid(0)
	}
	b.hold(l, b.dir("mine/.git")).Release()
	_, err := l.Acquire([]Want{b.dir("mine/.git"), b.dir("theirs/.git")})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), b.path("theirs/.git")) {
		t.Errorf("Acquire: %v", err)
	}
	if left := list(t, b.path("mine")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	b.clean()
}

// Unknown files in the registry do no harm; damaged entries are removed.
func TestUnknownFilesInRegistry(t *testing.T) {
	b := newFixture(t)
	b.must(os.MkdirAll(b.registry, 0o700))
	b.must(os.Mkdir(b.path("victim"), 0o755))
	b.littered = true
	in := func(name string) string { return filepath.Join(b.registry, name) }
	hex := func(digit string) string { return strings.Repeat(digit, nameLen) }
	b.must(os.WriteFile(in("README"), []byte("x"), 0o600))
	b.must(os.WriteFile(in(hex("a")), []byte("garbage\n"), 0o600))
	b.must(os.WriteFile(in(hex("b")), nil, 0o600))
	b.must(os.WriteFile(in(hex("c")), []byte(lineWant(b.dir("victim"))+lineMake), 0o600)) // the entry of another name
	b.must(os.WriteFile(in(hex("d")), make([]byte, maxEntry+1), 0o600))
	b.must(os.Mkdir(in(hex("e")), 0o700))
	b.must(os.Symlink(b.path("victim"), in(hex("f"))))
	b.must(unix.Mkfifo(in(hex("0")), 0o600))
	b.entry(b.path(".git"), "placeholder dir \"/else")
	l := b.open()
	if got := strings.Join(list(t, b.registry), " "); got != strings.Join([]string{hex("0"), "README", hex("e"), hex("f")}, " ") {
		t.Errorf("registry has %q", got)
	}
	b.there("victim")
	b.entry(b.path(".git"), "placeholder dir \"/else\"\nmake\n")
	b.hold(l, b.dir(".git")).Release()
	b.there("victim")

	// A FIFO in the place of a registry file is an error.
	b.must(os.Remove(in(registryName(b.path(".git")))))
	b.must(unix.Mkfifo(in(registryName(b.path(".git"))), 0o600))
	if _, err := l.Acquire([]Want{b.dir(".git")}); err == nil {
		t.Error("held with a fifo as entry")
	}
	b.there("victim")
}

func TestLimit(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	l.limit = 2
	h := b.hold(l, b.dir("a"), b.dir("b"))
	b.hold(l, b.dir("a")).Release() // no new one
	if _, err := l.Acquire([]Want{b.dir("c")}); !errors.Is(err, ErrLimit) {
		t.Errorf("Acquire: %v", err)
	}
	b.there("a", "b")
	h.Release()
	h = b.hold(l, b.dir("c"))
	if _, err := l.Acquire([]Want{b.dir("a"), b.dir("b")}); !errors.Is(err, ErrLimit) {
		t.Errorf("Acquire: %v", err)
	}
	b.there("c")
	h.Release()
	b.clean()
}

// An Acquire that runs while the ledger closes makes nothing.
func TestAcquireDuringClose(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	s, err := l.addRef(b.path(".git"))
	b.must(err)
	s.mu.Lock()
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := l.Acquire([]Want{b.dir(".git")}); !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire: %v", err)
		}
	})
	until(l, func() bool { return s.refs == 2 })
	both.Go(func() { l.Close() })
	until(l, func() bool { return l.closed })
	s.mu.Unlock()
	both.Wait()
	l.dropRef(s)
	b.there()
}

// until waits for a change under the ledger's lock.
func until(l *Ledger, done func() bool) {
	for {
		l.mu.Lock()
		ok := done()
		l.mu.Unlock()
		if ok {
			return
		}
		runtime.Gosched()
	}
}

// A lock on a registry file that lost its name does not count: nothing is
// made under it, and the file that has the name now stays.
func TestLockOnRemovedFile(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	file := filepath.Join(b.registry, registryName(b.path(".git")))
	stale, err := openRecord(file, unix.O_CREAT)
	b.must(err)
	b.must(stale.add(lineWant(b.dir(".git"))))
	b.must(os.Remove(file))
	if _, done, err := l.join(stale, b.dir(".git")); done || err != nil {
		t.Errorf("join: %v, %v", done, err)
	}
	b.there()
	h := b.hold(l, b.dir(".git"))
	l.retire(stale, nil, false)
	if _, err := os.Lstat(file); err != nil {
		t.Error(err)
	}
	h.Release()
	b.there()
}

// Registry files are kept for the next use, up to a number and until the
// ledger closes.
func TestIdleFiles(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	want := b.dir("a")
	for range 2 {
		b.hold(l, want).Release()
		data, err := os.ReadFile(filepath.Join(b.registry, registryName(want.Path)))
		if string(data) != lineWant(want) {
			t.Errorf("kept: %q, %v", data, err)
		}
	}
	b.hold(l, b.file("a")).Release() // as the other kind
	for i := range maxIdle + 10 {
		b.hold(l, b.dir(fmt.Sprint(i))).Release()
	}
	if got := list(b, b.registry); len(got) != maxIdle {
		t.Errorf("%d files are kept", len(got))
	}
	b.open() // sweeps them
	if got := list(b, b.registry); len(got) != 0 {
		t.Errorf("%d files are kept", len(got))
	}
	b.hold(l, b.dir("a")).Release()
	b.there()
}

func TestRegistryWritableByOthersIsRefused(t *testing.T) {
	b := newFixture(t)
	b.must(os.Mkdir(b.registry, 0o700))
	b.must(os.Chmod(b.registry, 0o777))
	if _, err := Open(b.registry, nil); err == nil {
		t.Error("a registry that other users can write to was accepted")
	}
}

// Holds returns true for a name that was removed before the call.
func TestHoldsMissingName(t *testing.T) {
	b := newFixture(t)
	has := b.open().Holds
	if !has(b.path(".git")) {
		t.Error("a name that is gone is taken for a real one")
	}
	if has(b.ws) || has("/") {
		t.Error("a real directory is taken for a placeholder")
	}
}

// Many sandboxes on two servers, a third server that is opened and closed, and
// a goroutine that calls Holds: no placeholder is removed while it is held,
// none is taken for real, and none is left.
func TestStress(t *testing.T) {
	b := newFixture(t)
	names := []string{".git", ".agents", ".codex", ".aws", "nope"}
	var sandboxes sync.WaitGroup
	for range 2 {
		l := b.open()
		for range 6 {
			sandboxes.Go(func() {
				for range 40 {
					b.sandbox(l, names)
				}
			})
		}
	}
	sandboxes.Go(func() {
		for range 40 {
			l, err := Open(b.registry, nil)
			if err != nil {
				t.Error(err)
				return
			}
			l.Close()
		}
	})
	stop := b.neverReal(b.open(), names...)
	sandboxes.Wait()
	stop()
	b.there()
	b.clean()
}

// neverReal calls Holds for the names until stopped. The names are held, or
// gone.
func (b *fixture) neverReal(l *Ledger, names ...string) (stop func()) {
	done := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		has := l.Holds
		for {
			for _, name := range names {
				select {
				case <-done:
					return
				default:
				}
				if !has(b.path(name)) {
					b.Errorf("%s is taken for a real name", name)
					return
				}
			}
		}
	})
	return func() { close(done); asking.Wait() }
}

// sandbox holds some of the names and checks that they stay.
func (b *fixture) sandbox(l *Ledger, names []string) {
	var wants []Want
	for _, i := range rand.Perm(len(names))[:1+rand.IntN(len(names))] {
		wants = append(wants, Want{Path: b.path(names[i]), Dir: names[i] != "nope"})
	}
	h, err := l.Acquire(wants)
	if err != nil {
		b.Error(err)
		return
	}
	defer h.Release()
	has := l.Holds
	var before []uint64
	for range 3 {
		for i, w := range wants {
			var st unix.Stat_t
			if err := unix.Lstat(w.Path, &st); err != nil || !has(w.Path) {
				b.Errorf("%s while held: %v", w.Path, err)
				return
			}
			if before = append(before, st.Ino); before[i] != st.Ino {
				b.Errorf("%s was replaced while held", w.Path)
			}
		}
		runtime.Gosched()
	}
}
