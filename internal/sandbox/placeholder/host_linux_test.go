package placeholder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A killed server loses its lock at once, and the next server sweeps.
func TestCrash(t *testing.T) {
	b := newFixture(t)
	kill := b.server(".git")
	b.there(".git")
	l := b.open()
	b.there(".git") // in use
	if !l.Holds(b.path(".git")) {
		t.Error("the placeholder of another process is taken for a real name")
	}
	kill()
	b.there(".git")
	b.open()
	b.there()
	b.clean()
}

// A placeholder of a killed server is used again without a sweep.
func TestAcquireAfterCrash(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.server(".git")()
	if !l.Holds(b.path(".git")) {
		t.Error("a dead server's placeholder is taken for a real name")
	}
	b.hold(l, b.dir(".git")).Release()
	b.there()
	b.server(".git")()
	b.hold(l, b.file(".git")).Release() // also as the other kind
	b.there()
	b.clean()
}

// The server crashed between making the name and writing its identity.
func TestCrashBetweenMakeAndMade(t *testing.T) {
	for _, dir := range []bool{true, false} {
		b := newFixture(t)
		want := Want{Path: b.path("x"), Dir: dir}
		create := func() {
			if dir {
				b.must(os.Mkdir(want.Path, 0o755))
			} else {
				b.must(os.WriteFile(want.Path, nil, 0o644))
			}
		}
		b.entry(want.Path, lineWant(want), lineMake)
		create()
		l := b.open()
		b.there()
		b.clean()

		b.entry(want.Path, lineWant(want), lineMake)
		create()
		if !l.Holds(want.Path) {
			t.Error("taken for a real name")
		}
		b.hold(l, want).Release()
		b.there()
		b.clean()
	}
}

// An entry without an identity claims nothing that its maker cannot have
// made.
func TestCrashBeforeMake(t *testing.T) {
	t.Run("older", func(t *testing.T) {
		b := newFixture(t)
		b.must(os.Mkdir(b.path("x"), 0o755))
		b.entry(b.path("x"), lineWant(b.dir("x")), lineMake)
		later := time.Now().Add(time.Second)
		b.must(os.Chtimes(filepath.Join(b.registry, registryName(b.path("x"))), later, later))
		b.keeps("x")
	})
	t.Run("older, not swept", func(t *testing.T) {
		b := newFixture(t)
		l := b.open()
		b.must(os.Mkdir(b.path("x"), 0o755))
		b.entry(b.path("x"), lineWant(b.dir("x")), lineMake)
		later := time.Now().Add(time.Second)
		b.must(os.Chtimes(filepath.Join(b.registry, registryName(b.path("x"))), later, later))
		if !l.Holds(b.path("x")) {
			t.Error("taken for real while its maker may be about to note that it made it")
		}
		if _, err := l.Acquire([]Want{b.dir("x")}); !isChanged(err) {
			t.Errorf("Acquire: %v", err)
		}
		b.keeps("x")
	})
	t.Run("content", func(t *testing.T) {
		b := newFixture(t)
		b.entry(b.path("x"), lineWant(b.dir("x")), lineMake)
		b.must(os.MkdirAll(b.path("x/y"), 0o755))
		b.keeps("x")
	})
	t.Run("file content", func(t *testing.T) {
		b := newFixture(t)
		b.entry(b.path("x"), lineWant(b.file("x")), lineMake)
		b.must(os.WriteFile(b.path("x"), []byte("y"), 0o644))
		b.keeps("x")
	})
	t.Run("kind", func(t *testing.T) {
		b := newFixture(t)
		b.entry(b.path("x"), lineWant(b.dir("x")), lineMake)
		b.must(os.WriteFile(b.path("x"), nil, 0o644))
		b.keeps("x")
	})
	t.Run("link", func(t *testing.T) {
		b := newFixture(t)
		b.entry(b.path("x"), lineWant(b.file("x")), lineMake)
		b.must(os.Symlink("nowhere", b.path("x")))
		b.keeps("x")
	})
	t.Run("owner", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("needs root to give a directory away")
		}
		b := newFixture(t)
		b.entry(b.path("x"), lineWant(b.dir("x")), lineMake)
		b.must(os.Mkdir(b.path("x"), 0o755))
		b.must(os.Chown(b.path("x"), 65534, 65534))
		b.keeps("x")
	})
	t.Run("failed", func(t *testing.T) {
		b := newFixture(t)
		b.entry(b.path("x"), lineWant(b.dir("x")), lineMake, lineGone)
		b.must(os.Mkdir(b.path("x"), 0o755))
		b.keeps("x")
	})
}

// If the host fills a placeholder, it belongs to the host from then on.
func TestPlaceholderFilledByHost(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	h := b.hold(l, b.dir(".git"), b.file("notes"))
	has := l.Holds
	if !has(b.path(".git")) || !has(b.path("notes")) {
		t.Error("placeholders are taken for real names")
	}
	b.must(os.Mkdir(b.path(".git/objects"), 0o755))
	b.must(os.WriteFile(b.path("notes"), []byte("x"), 0o644))
	if has(b.path(".git")) || has(b.path("notes")) {
		t.Error("names with content are taken for placeholders")
	}
	var changed *ChangedError
	for _, ledger := range []*Ledger{l, b.open()} {
		_, err := ledger.Acquire([]Want{b.dir(".aws"), b.dir(".git")})
		if !errors.As(err, &changed) || changed.Path != b.path(".git") {
			t.Errorf("Acquire: %v", err)
		}
		b.there(".git", "notes")
	}
	h.Release()
	b.there(".git", "notes")
	b.clean()
}

// After a later sandbox was planned with the content, emptying it changes
// nothing.
func TestPlaceholderEmptiedAfterUse(t *testing.T) {
	for _, asked := range []bool{true, false} {
		b := newFixture(t)
		l := b.open()
		h := b.hold(l, b.dir(".git"))
		b.must(os.Mkdir(b.path(".git/objects"), 0o755))
		if asked && l.Holds(b.path(".git")) {
			t.Error("a directory with content is taken for a placeholder")
		}
		b.must(os.Remove(b.path(".git/objects")))
		h.Release()
		if asked {
			b.there(".git")
		} else {
			b.there()
		}
		b.clean()
	}
}

// The host replaces a placeholder. File systems often reuse the number of the
// removed inode, so the number alone does not distinguish them.
func TestReplaced(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	h := b.hold(l, b.dir(".git"))
	before := b.born(".git")
	b.must(os.Remove(b.path(".git")))
	for { // the clock of the filesystem ticks every few milliseconds
		b.must(os.Mkdir(b.path(".git"), 0o755))
		if b.born(".git") != before {
			break
		}
		b.must(os.Remove(b.path(".git")))
	}
	if l.Holds(b.path(".git")) {
		t.Error("taken for a placeholder")
	}
	if _, err := l.Acquire([]Want{b.dir(".git")}); !isChanged(err) {
		t.Errorf("Acquire: %v", err)
	}
	h.Release()
	b.there(".git")
	b.clean()
}

// If the host removes a placeholder in use, the next sandbox makes it again,
// and the last one to end removes that.
func TestRemovedWhileInUse(t *testing.T) {
	for _, two := range []bool{false, true} {
		for _, firstLeaves := range []bool{false, true} {
			b := newFixture(t)
			l := b.open()
			other := l
			if two {
				other = b.open()
			}
			first := b.hold(l, b.dir(".git"))
			b.must(os.Remove(b.path(".git")))
			second := b.hold(other, b.dir(".git"))
			b.there(".git")
			if firstLeaves {
				first, second = second, first
			}
			second.Release()
			b.there(".git")
			first.Release()
			b.there()
			b.clean()
		}
	}
}

// Several sandboxes notice at once that a placeholder in use is gone: one
// makes it again, the others share it.
func TestRemovedWhileInUseByMany(t *testing.T) {
	b := newFixture(t)
	var ledgers []*Ledger
	for range 6 {
		ledgers = append(ledgers, b.open())
	}
	for range 20 {
		first := b.hold(ledgers[0], b.dir(".git"))
		b.must(os.Remove(b.path(".git")))
		if !ledgers[0].Holds(b.path(".git")) {
			t.Error("a name that is gone is taken for a real one")
		}
		stop := b.neverReal(ledgers[0], ".git")
		var held [6]*Lease
		var sandboxes sync.WaitGroup
		for i, l := range ledgers {
			sandboxes.Go(func() {
				var err error
				if held[i], err = l.Acquire([]Want{b.dir(".git")}); err != nil {
					t.Error(err)
				}
			})
		}
		sandboxes.Wait()
		stop()
		if t.Failed() {
			return
		}
		first.Release()
		b.there(".git")
		for _, h := range held {
			h.Release()
		}
		b.there()
	}
	b.clean()
}

func TestRemovedByHost(t *testing.T) {
	b := newFixture(t)
	b.must(os.Mkdir(b.path("sub"), 0o755))
	h := b.hold(b.open(), b.dir(".git"), b.dir("sub/.git"))
	b.must(os.Remove(b.path(".git")))
	b.must(os.RemoveAll(b.path("sub")))
	h.Release()
	b.there()
	b.clean()
}

// A real name that is as new as the journal line is not claimed, because
// making the placeholder failed.
func TestRealNameCreatedDuringMake(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	r, err := openRecord(filepath.Join(b.registry, registryName(b.path("x"))), unix.O_CREAT)
	b.must(err)
	b.must(r.add(lineWant(b.dir("x"))))
	de, err := openDirEntry(b.path("x"))
	b.must(err)
	defer de.close()
	b.must(os.Mkdir(b.path("x"), 0o755))
	if _, err := create(r, de, b.dir("x"), nothing); err != errExists {
		t.Errorf("put: %v", err)
	}
	l.retire(r, nil, false)
	b.there("x")
	b.clean()
}

// If a command replaces a directory by a link, the ledger does not follow the
// link.
func TestParentBecomesLink(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.must(os.MkdirAll(b.path("a/b"), 0o755))
	b.must(os.MkdirAll(b.path("elsewhere/b"), 0o755))
	h := b.hold(l, b.dir("a/b/.git"))
	b.must(os.Rename(b.path("a"), b.path("was")))
	b.must(os.Symlink("elsewhere", b.path("a")))

	if _, err := l.Acquire([]Want{b.dir("a/b/.aws")}); !errors.Is(err, unix.ELOOP) {
		t.Errorf("Acquire: %v", err)
	}
	// The directory behind the link is not ours; the placeholder is found at its
	// new path.
	b.must(os.Mkdir(b.path("elsewhere/b/.git"), 0o755))
	h.Release()
	if left := list(t, b.path("elsewhere/b")); strings.Join(left, " ") != ".git" {
		t.Errorf("behind the link: %q", left)
	}
	if left := list(t, b.path("was/b")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	b.clean()
}
