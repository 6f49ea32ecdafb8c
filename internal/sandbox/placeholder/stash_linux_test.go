package placeholder

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

func (b *fixture) inode(path string) uint64 {
	b.Helper()
	info, err := os.Lstat(path)
	b.must(err)
	return info.Sys().(*syscall.Stat_t).Ino
}

func (b *fixture) stashed() []string { return list(b, b.registry+stashSuffix) }

// The next command in a workspace gets the directory of the last one.
func TestStashedDirectoryIsReused(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	h := b.hold(l, b.dir(".git"))
	first := b.inode(b.path(".git"))
	h.Release()
	b.there()
	if n := len(b.stashed()); n != 1 {
		t.Fatalf("%d directories are stashed", n)
	}
	h = b.hold(l, b.dir(".git"))
	if second := b.inode(b.path(".git")); second != first {
		t.Errorf("inode %d was %d before", second, first)
	}
	other := b.hold(l, b.dir(".codex"))
	if b.inode(b.path(".codex")) == first {
		t.Error("a stashed directory came back under another name")
	}
	other.Release()
	h.Release()
	b.there()
	b.clean()
	b.must(l.Close())
	if left := b.stashed(); len(left) > 0 {
		t.Errorf("stashed after Close: %q", left)
	}
}

// Content that is put into a stashed directory never gets into a workspace.
func TestStashedDirectoryWithContentIsNotReused(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.hold(l, b.dir(".git")).Release()
	planted := filepath.Join(b.registry+stashSuffix, b.stashed()[0], "planted")
	b.must(os.WriteFile(planted, nil, 0o600))
	h := b.hold(l, b.dir(".git"))
	if content := list(b, b.path(".git")); len(content) > 0 {
		t.Errorf("the placeholder has %q", content)
	}
	h.Release()
	b.there()
	b.must(os.Remove(planted))
}

// A file is not stashed, and neither is a directory with content.
func TestOnlyEmptyDirectoriesAreStashed(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	h := b.hold(l, b.dir(".git"), b.file("carved"))
	b.must(os.Mkdir(b.path(".git/objects"), 0o755))
	h.Release()
	b.there(".git")
	if left := b.stashed(); len(left) > 0 {
		t.Errorf("stashed: %q", left)
	}
}

// The name exists when a stashed directory is to be moved to it.
func TestStashedDirectoryDoesNotReplaceRealName(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.hold(l, b.dir(".git")).Release()
	b.must(os.Mkdir(b.path(".git"), 0o755))
	if _, err := l.Acquire([]Want{b.dir(".git")}); err == nil {
		t.Error("a name that exists was acquired")
	}
	b.there(".git")
}

// On another file system nothing is stashed.
func TestOtherFileSystemIsNotStashed(t *testing.T) {
	b := newFixture(t)
	dir, err := os.MkdirTemp("/dev/shm", "placeholder-test-")
	if err != nil {
		t.Skip("no second file system here:", err)
	}
	defer os.RemoveAll(dir)
	b.ws = dir
	l := b.open()
	for range 2 {
		b.hold(l, b.dir(".git")).Release()
		b.there()
	}
	if left := b.stashed(); len(left) > 0 {
		t.Errorf("stashed: %q", left)
	}
}

// Directories that a dead server has stashed are removed by the next server.
func TestStashOfDeadServerIsSwept(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.hold(l, b.dir(".git")).Release()
	b.must(os.Mkdir(filepath.Join(b.registry+stashSuffix, "stray"), 0o700))
	b.open()
	if left := b.stashed(); len(left) > 0 {
		t.Errorf("stashed: %q", left)
	}
}

// The workspace is moved while a sandbox uses it, and replaced by a link.
func TestMovedWhileHeld(t *testing.T) {
	for _, instead := range []string{"nothing", "link", "directory"} {
		t.Run(instead, func(t *testing.T) {
			b := newFixture(t)
			l := b.open()
			b.must(os.Mkdir(b.path("sub"), 0o755))
			h := b.hold(l, b.dir("sub/.git"), b.file("sub/carved"))
			b.must(os.Rename(b.path("sub"), b.path("moved")))
			switch instead {
			case "link":
				b.must(os.Symlink(t.TempDir(), b.path("sub")))
			case "directory":
				b.must(os.Mkdir(b.path("sub"), 0o755))
			}
			h.Release()
			if left := list(b, b.path("moved")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			b.clean()
		})
	}
}

// A server that stashes a directory has unlocked it before the next server can
// take it.
func TestStashedDirectoryIsUnlockedBeforeReuse(t *testing.T) {
	b := newFixture(t)
	var servers sync.WaitGroup
	for range 4 {
		l := b.open()
		servers.Go(func() {
			for range 500 {
				h, err := l.Acquire([]Want{b.dir(".git")})
				if err != nil {
					t.Error(err)
					return
				}
				h.Release()
			}
		})
	}
	servers.Wait()
	b.there()
	b.clean()
}
