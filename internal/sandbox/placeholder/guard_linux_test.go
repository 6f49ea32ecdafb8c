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
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
)

// elsewhere returns the same workspace with another registry.
func (b *fixture) elsewhere() *fixture {
	return &fixture{TB: b.TB, ws: b.ws, registry: filepath.Join(b.TempDir(), "registry")}
}

func (b *fixture) existing(name string) Want { return Want{Path: b.path(name), Exists: true} }

// gone waits for a name to be removed: the ledger that made it retries by
// itself.
func (b *fixture) gone(name string) {
	b.Helper()
	for {
		if _, err := os.Lstat(b.path(name)); errors.Is(err, fs.ErrNotExist) {
			return
		}
		runtime.Gosched()
	}
}

// quiet stops a ledger from retrying by itself, so that a test sees the effect of
// other triggers.
func quiet(l *Ledger) *Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retrying = true
	return l
}

// A placeholder that a sandbox of another registry depends on stays, and is
// removed when the maker tries again.
func TestGuardOutlivesMaker(t *testing.T) {
	chances := map[string]func(b *fixture, l *Ledger){
		"release": func(b *fixture, l *Ledger) { b.hold(l, b.dir(".aws")).Release() },
		"hold":    func(b *fixture, l *Ledger) { b.hold(l, b.dir(".git"), b.file("notes")).Release() },
		"sweep":   func(b *fixture, l *Ledger) { b.must(l.Sweep()) },
		"close":   func(b *fixture, l *Ledger) { b.must(l.Close()) },
		"open":    func(b *fixture, l *Ledger) { b.open() },
	}
	for name, chance := range chances {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			other := b.elsewhere()
			maker, guardian := quiet(b.open()), other.open()
			made := b.hold(maker, b.dir(".git"), b.file("notes"))
			guards := b.hold(guardian, b.existing(".git"), b.existing("notes"))
			before := b.inode(b.path(".git"))
			made.Release()
			b.there(".git", "notes")
			chance(b, quiet(b.open()))
			b.there(".git", "notes")
			if b.inode(b.path(".git")) != before {
				t.Error("it was replaced")
			}
			guards.Release()
			b.there(".git", "notes")
			chance(b, maker)
			b.there()
			other.there()
			b.clean()
		})
	}
}

// Without another trigger the maker retries by itself, and Close waits for that.
func TestMakerRemovesAfterGuardEnds(t *testing.T) {
	b := newFixture(t)
	other := b.elsewhere()
	maker, guardian := b.open(), other.open()
	made := b.hold(maker, b.dir(".git"))
	guards := b.hold(guardian, b.existing(".git"))
	made.Release()
	b.there(".git")
	guards.Release()
	b.gone(".git")
	until(maker, func() bool { return !maker.retrying })
	b.clean()

	made = b.hold(maker, b.dir(".git"))
	guards = b.hold(guardian, b.existing(".git"))
	made.Release()
	b.must(maker.Close())
	b.there(".git")
	guards.Release()
	b.there(".git")
	b.open()
	b.there()
}

// The order of the releases does not matter, nor whether one of the ledgers
// acquires the name again.
func TestGuardReleasedInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {0, 2, 1, 3}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			b := newFixture(t)
			maker, guardian := b.open(), b.elsewhere().open()
			holds := []*Lease{b.hold(maker, b.dir(".git")), b.hold(guardian, b.existing(".git")),
				b.hold(maker, b.dir(".git")), b.hold(guardian, b.existing(".git"))}
			before := b.inode(b.path(".git"))
			for _, i := range order {
				if b.inode(b.path(".git")) != before {
					t.Fatal("it was replaced")
				}
				holds[i].Release()
				holds[i].Release()
			}
			b.gone(".git")
			until(maker, func() bool { return !maker.retrying })
			b.clean()
		})
	}
}

// The maker acquires the name again while the guard exists, and releases it
// after the guard. Now the directory is stashed, and used again from there.
func TestStashAfterGuard(t *testing.T) {
	b := newFixture(t)
	maker, guardian := quiet(b.open()), b.elsewhere().open()
	made := b.hold(maker, b.dir(".git"))
	guards := b.hold(guardian, b.existing(".git"))
	before := b.inode(b.path(".git"))
	made.Release()
	if left := b.stashed(); len(left) > 0 {
		t.Errorf("stashed: %q", left)
	}
	if !maker.Holds(b.path(".git")) {
		t.Error("a placeholder of this ledger is taken for a real name")
	}
	made = b.hold(maker, b.dir(".git"))
	guards.Release()
	made.Release()
	b.there()
	if n := len(b.stashed()); n != 1 {
		t.Fatalf("%d directories are stashed", n)
	}
	made = b.hold(maker, b.dir(".git"))
	guards = b.hold(guardian, b.existing(".git"))
	if b.inode(b.path(".git")) != before {
		t.Error("it was replaced")
	}
	made.Release()
	b.there(".git")
	guards.Release()
	b.must(maker.Sweep())
	b.there()
	b.clean()
}

// Two ledgers of one process: one guards a placeholder of the other's
// registry.
func TestGuardInOwnRegistry(t *testing.T) {
	b := newFixture(t)
	l := quiet(b.open())
	made := b.hold(l, b.dir(".git"))
	guards := b.hold(l, b.existing(".git"))
	made.Release()
	b.there(".git")
	guards.Release()
	b.there()
}

// A guard that is not released ends with Close, and with its process.
func TestGuardEndsWithLedgerOrProcess(t *testing.T) {
	b := newFixture(t)
	maker := quiet(b.open())
	made := b.hold(maker, b.dir(".git"))
	guardian := b.elsewhere().open()
	guards := b.hold(guardian, b.existing(".git"))
	child := b.spawn("guard", b.elsewhere().registry, ".git", nil)
	made.Release()
	b.must(guardian.Close())
	guards.Release()
	b.must(maker.Sweep())
	b.there(".git")
	child.kill()
	b.must(maker.Sweep())
	b.there()
	b.clean()
	if _, err := guardian.Acquire([]Want{{Path: filepath.Dir(b.ws), Exists: true}}); err != nil {
		t.Errorf("needs no guard: %v", err)
	}
	b.must(os.Mkdir(b.path("empty"), 0o755))
	if _, err := guardian.Acquire([]Want{b.existing("empty")}); !errors.Is(err, ErrClosed) {
		t.Errorf("guard after Close: %v", err)
	}
}

// If the maker was killed, the next ledger finds the guard.
func TestMakerCrashesUnderGuard(t *testing.T) {
	b := newFixture(t)
	b.littered = true
	b.server(".git")
	kill := b.server(".aws")
	guards := b.hold(b.elsewhere().open(), b.existing(".aws"))
	kill()
	l := b.open()
	b.there(".aws", ".git")
	guards.Release()
	b.gone(".aws")
	b.there(".git")
	b.must(l.Close())
}

// Both directions between two users, in a directory like /tmp.
func TestGuardOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to be two users")
	}
	const nobody = 65534
	user := &syscall.Credential{Uid: nobody, Gid: nobody}
	public := func(t *testing.T) *fixture {
		b := newFixture(t)
		for _, dir := range []string{filepath.Dir(b.ws), filepath.Dir(filepath.Dir(b.registry))} {
			b.must(os.Chmod(dir, 0o755))
		}
		b.must(os.Chmod(b.ws, 0o777|fs.ModeSticky))
		return b
	}
	theirs := func(b *fixture) string {
		dir := b.TempDir()
		b.must(os.Chown(dir, nobody, nobody))
		return filepath.Join(dir, "registry")
	}
	umask := unix.Umask(0o077)
	defer unix.Umask(umask)
	t.Run("root-makes", func(t *testing.T) {
		b := public(t)
		l := quiet(b.open())
		made := b.hold(l, b.dir(".git"))
		child := b.spawn("guard", theirs(b), ".git", user)
		made.Release()
		b.there(".git")
		child.release()
		b.must(l.Sweep())
		b.there()
		b.clean()
	})
	t.Run("root-guards", func(t *testing.T) {
		b := public(t)
		child := b.spawn("hold", theirs(b), ".git", user)
		guards := b.hold(b.open(), b.existing(".git"))
		child.release()
		b.there(".git")
		guards.Release()
		b.gone(".git") // the child removes it
	})
}

func TestModesIgnoreUmask(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	b := newFixture(t)
	b.must(os.Chmod(b.ws, 0o755|fs.ModeSetgid))
	h := b.hold(b.open(), b.dir(".git"), b.file("notes"))
	defer h.Release()
	for name, mode := range map[string]fs.FileMode{".git": fs.ModeDir | fs.ModeSetgid | 0o755, "notes": 0o644} {
		if info, err := os.Lstat(b.path(name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	// A crash before the mode was set.
	b.entry(b.path("x"), lineWant(b.dir("x")), lineMake)
	b.must(os.Mkdir(b.path("x"), 0o755))
	defer b.hold(b.open(), b.dir("x")).Release()
	if info, err := os.Lstat(b.path("x")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("x: %v, %v", info, err)
	}
}

// A name that is not empty, or not a directory or file, cannot be a
// placeholder: no descriptor is spent on it.
func TestGuardNotNeeded(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.must(os.MkdirAll(b.path("dir/sub"), 0o755))
	b.must(os.Mkdir(b.path("flat"), 0o755))
	b.must(os.WriteFile(b.path("flat/file"), nil, 0o644))
	b.must(os.WriteFile(b.path("file"), []byte("x"), 0o644))
	b.must(unix.Mkfifo(b.path("fifo"), 0o644))
	wants := []Want{b.existing("dir"), b.existing("flat"), b.existing("file"), b.existing("fifo"), {Path: "/dev/null", Exists: true}}
	h := b.hold(l, wants...)
	if len(l.guards) != 0 || len(h.guards) != 0 {
		t.Errorf("%d guards", len(l.guards))
	}
	h.Release()
	l.limit = 2
	h = b.hold(l, b.existing("flat/file"), b.existing("flat/file"))
	for _, want := range []Want{b.existing("flat/file"), b.dir(".git")} {
		if _, err := l.Acquire([]Want{want}); !errors.Is(err, ErrLimit) {
			t.Errorf("over the limit: %v", err)
		}
	}
	h.Release()
	b.hold(l, b.dir(".git")).Release()
}

// If the name has changed, the error says to plan again.
func TestGuardChanged(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.must(os.Mkdir(b.path("dir"), 0o755))
	b.must(os.Symlink("dir", b.path("link")))
	b.must(os.WriteFile(b.path("file"), nil, 0o644))
	for _, name := range []string{"missing", "missing/below", "file/below", "link", "link/below"} {
		_, err := l.Acquire([]Want{b.existing("dir"), b.existing(name)})
		changed, ok := errors.AsType[*ChangedError](err)
		if !ok || changed.Path != b.path(name) || !strings.Contains(err.Error(), "changed since the sandbox was planned") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.Acquire([]Want{{Path: "relative", Exists: true}}); err == nil || isChanged(err) {
		t.Errorf("relative: %v", err)
	}
	if len(l.guards) != 0 {
		t.Errorf("%d guards are left", len(l.guards))
	}
	// Another process is about to remove it.
	fd, err := unix.Open(b.path("dir"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	b.must(err)
	defer unix.Close(fd)
	b.must(unix.Flock(fd, unix.LOCK_EX))
	if _, err := l.Acquire([]Want{b.existing("dir")}); !isChanged(err) {
		t.Errorf("locked: %v", err)
	}
	b.must(unix.Flock(fd, unix.LOCK_UN))
	b.hold(l, b.existing("dir")).Release()
}

// If the file is replaced between stat and open, open notices it, whatever
// the new file is, and does not block.
func TestGuardNoticesReplacedFile(t *testing.T) {
	kinds := map[string]func(p string) error{
		"dir":  func(p string) error { return os.Mkdir(p, 0o755) },
		"file": func(p string) error { return os.WriteFile(p, nil, 0o644) },
		"link": func(p string) error { return os.Symlink("/dev/null", p) },
		"fifo": func(p string) error { return unix.Mkfifo(p, 0o644) },
		"none": func(p string) error { return nil },
	}
	if os.Geteuid() == 0 {
		kinds["device"] = func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) }
	}
	for _, was := range []string{"dir", "file"} {
		for is, create := range kinds {
			b := newFixture(t)
			b.must(kinds[was](b.path("x")))
			de, err := openDirEntry(b.path("x"))
			b.must(err)
			seen, err := de.stat()
			b.must(err)
			b.must(os.Rename(b.path("x"), b.path("was")))
			b.must(create(b.path("x")))
			f, err := de.open(seen, unix.O_RDONLY)
			if !isChanged(asChange("x", err)) {
				t.Errorf("%s was a %s: %v, %v", is, was, f, err)
			}
			de.close()
		}
	}
}

// The file is opened, then removed, then locked: such a lock does not count.
func TestLockAfterRemoval(t *testing.T) {
	b := newFixture(t)
	for _, replace := range []bool{false, true} {
		b.must(os.Mkdir(b.path("x"), 0o755))
		de, err := openDirEntry(b.path("x"))
		b.must(err)
		seen, err := de.stat()
		b.must(err)
		f, err := de.open(seen, unix.O_RDONLY)
		b.must(err)
		b.must(os.Rename(b.path("x"), b.path("was")))
		if replace {
			b.must(os.Mkdir(b.path("x"), 0o755))
		}
		if err := f.lock(de, filelock.Shared); err != errReplaced {
			t.Errorf("lock: %v", err)
		}
		f.release()
		de.close()
		os.Remove(b.path("x"))
		b.must(os.Remove(b.path("was")))
	}
}

// A file of root that cannot be read or locked is an error. An unreadable file of this
// user, or of another user, is not guarded.
func TestGuardUnreadable(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.must(os.Mkdir(b.path("mine"), 0))
	b.must(os.Mkdir(b.path("theirs"), 0o700))
	b.must(os.WriteFile(b.path("file"), nil, 0o600))
	b.must(os.WriteFile(b.path("full"), []byte("x"), 0o600))
	b.must(os.MkdirAll(b.path("deep/sub"), 0o700))
	b.must(os.Chmod(b.path("deep"), 0o700))
	if os.Geteuid() != 0 {
		b.hold(l, b.existing("mine")).Release()
		return
	}
	const nobody, stranger = 65534, 1234
	b.must(os.Mkdir(b.path("stranger's"), 0o700))
	b.must(os.WriteFile(b.path("stranger's file"), nil, 0o600))
	b.must(os.Mkdir(b.path("locked"), 0o755))
	b.must(os.Mkdir(b.path("stranger's locked"), 0o755))
	for _, name := range []string{"locked", "stranger's locked"} {
		fd, err := unix.Open(b.path(name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		b.must(err)
		defer unix.Close(fd)
		b.must(unix.Flock(fd, unix.LOCK_EX))
	}
	for _, name := range []string{"stranger's", "stranger's file", "stranger's locked"} {
		b.must(os.Chown(b.path(name), stranger, stranger))
	}
	b.must(os.Chmod(filepath.Dir(b.ws), 0o755))
	b.must(os.Chown(b.path("mine"), nobody, nobody))
	// Only a whole process can run as another user.
	b.must(os.Chmod(filepath.Dir(filepath.Dir(b.registry)), 0o755))
	user := &syscall.Credential{Uid: nobody, Gid: nobody}
	for name, want := range map[string]string{
		"mine": "held <nil>", "theirs": errUnreadable.Error(), "file": errUnreadable.Error(), "full": "held <nil>", "deep": "held <nil>",
		"stranger's": "held <nil>", "stranger's file": "held <nil>", "locked": errLocked.Error(), "stranger's locked": "held <nil>",
	} {
		dir := b.TempDir()
		b.must(os.Chown(dir, nobody, nobody))
		child := b.start("guard", filepath.Join(dir, "registry"), name, user)
		if got := child.line(); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		child.kill()
	}
}

// A placeholder that is guarded as a directory cannot become a file.
func TestGuardKeepsKind(t *testing.T) {
	b := newFixture(t)
	l := quiet(b.open())
	made := b.hold(l, b.dir("x"))
	guards := b.hold(b.elsewhere().open(), b.existing("x"))
	made.Release()
	_, err := l.Acquire([]Want{b.file("x")})
	if _, ok := errors.AsType[*KindError](err); !ok {
		t.Errorf("Acquire: %v", err)
	}
	b.there("x")
	guards.Release()
	b.hold(l, b.file("x")).Release()
	b.there()
}

// An entry whose maker crashed before it made anything takes the placeholder of
// another registry for its own: it may share it, but not remove it.
func TestSharedPlaceholderOfTwoRegistries(t *testing.T) {
	b := newFixture(t)
	other := b.elsewhere()
	b.entry(b.path(".git"), lineWant(b.dir(".git")), lineMake)
	theirs := b.hold(quiet(other.open()), b.dir(".git"))
	before := b.inode(b.path(".git"))
	l := quiet(b.open()) // sweeps
	b.there(".git")
	ours := b.hold(l, b.dir(".git"))
	if b.inode(b.path(".git")) != before {
		t.Error("it was replaced")
	}
	theirs.Release()
	b.there(".git")
	ours.Release()
	b.there()
}

// Ledgers of three registries work on the same names. After every Acquire the
// name stays the same file until the Release, and in the end nothing is left.
func TestGuardStress(t *testing.T) {
	b := newFixture(t)
	names := []string{".git", ".agents", "nope"}
	var ledgers []*Ledger
	var sandboxes sync.WaitGroup
	var mu sync.Mutex
	count := make(map[string]int)
	for range 3 {
		l := b.elsewhere().open()
		ledgers = append(ledgers, l)
		for range 3 {
			sandboxes.Go(func() {
				for range 150 {
					how := b.holdOne(l, names[rand.IntN(len(names))])
					mu.Lock()
					count[how]++
					mu.Unlock()
				}
			})
		}
	}
	sandboxes.Wait()
	t.Log(count)
	if count["guarded"] == 0 || count["made"] == 0 {
		t.Errorf("some case never happened: %v", count)
	}
	for _, l := range ledgers {
		b.must(l.Close())
	}
	b.there()
}

// holdOne plans and holds one name like a sandbox of a ledger that does not
// know the others, and checks that the name stays.
func (b *fixture) holdOne(l *Ledger, name string) (how string) {
	want := Want{Path: b.path(name), Dir: name != "nope"}
	if _, err := os.Lstat(want.Path); err == nil {
		want.Exists = !l.Holds(want.Path)
	}
	h, err := l.Acquire([]Want{want})
	if isChanged(err) {
		return "changed"
	}
	if err != nil {
		b.Error(err)
		return "failed"
	}
	defer h.Release()
	var before unix.Stat_t
	for i := range 5 {
		var st unix.Stat_t
		if err := unix.Lstat(want.Path, &st); err != nil {
			b.Errorf("%s while held (exists %v): %v", name, want.Exists, err)
			return "failed"
		}
		if i == 0 {
			before = st
		} else if st.Ino != before.Ino {
			b.Errorf("%s was replaced while held (exists %v)", name, want.Exists)
		}
		runtime.Gosched()
	}
	if want.Exists {
		return "guarded"
	}
	return "made"
}

func BenchmarkGuard(b *testing.B) {
	bb := newFixture(b)
	l := bb.open()
	bb.must(os.MkdirAll(bb.path("full/sub"), 0o755))
	bb.must(os.Mkdir(bb.path("empty"), 0o755))
	for _, name := range []string{"full", "empty"} {
		wants := []Want{bb.existing(name)}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				h, err := l.Acquire(wants)
				if err != nil {
					b.Fatal(err)
				}
				h.Release()
			}
		})
	}
}
