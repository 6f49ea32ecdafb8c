//go:build unix

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

func TestOSHost(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"ws/sub", "out"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ws/.git"), []byte("gitdir: sub\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("ws", filepath.Join(dir, "alias")); err != nil {
		t.Fatal(err)
	}
	intent := intentOf(t, policyWN+", deny glob:"+dir+"/o*", roots(t, dir+"/alias"))
	policy, plan, err := compiled(OS{}, intent, Process{Cwd: dir + "/alias"})
	if err != nil {
		t.Fatal(err)
	}
	if policy.Cwd != dir+"/ws" {
		t.Errorf("cwd %s", policy.Cwd)
	}
	for p, want := range map[string]Effect{
		"/ws/n": HostWritable, "/ws/.git": HostReadable, "/ws/sub/n": HostReadable, "/ws/.codex": Hidden,
		"/out": Hidden, "/n": HostReadable,
	} {
		if got := plan.Effect(dir + p); got != want {
			t.Errorf("%s: %v, want %v in\n%v", p, got, want, plan)
		}
	}
}

func TestCanCreate(t *testing.T) {
	dir := t.TempDir()
	if !(OS{}).CanCreate(dir) {
		t.Error("an own directory")
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if !(OS{}).CanCreate(dir) {
		t.Error("an own directory whose mode could be changed")
	}
	if os.Geteuid() != 0 && (OS{}).CanCreate("/") {
		t.Error("the root as an ordinary user")
	}
}

// A FIFO where a file was expected does not block the reader.
func TestReadFileDoesNotWait(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), ".git")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { // ends with the FIFO's other end, if not before
		_, err := OS{}.ReadFile(fifo, 10)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("ReadFile returned %v, want fs.ErrInvalid", err)
		}
	case <-time.After(hang.Limit):
		t.Error("ReadFile waits for a writer of the FIFO")
		if f, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
		<-done
	}
	link := filepath.Join(t.TempDir(), ".git")
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	if _, err := (OS{}).ReadFile(link, 10); err == nil {
		t.Error("a link was followed")
	}
}

// Names of other users are distinguished from ours, root's and those of the
// directory's owner.
func TestForeign(t *testing.T) {
	need.Root(t, "to make names of others")
	const user, other = 1234, 1235
	for name, c := range map[string]struct {
		dir, own               int
		mode                   os.FileMode
		foreign, rootCanRemove bool
	}{
		"ours":                  {0, 0, 0o777 | os.ModeSticky, false, true},
		"another's in a shared": {0, user, 0o777 | os.ModeSticky, true, true},
		"of the owner":          {user, user, 0o755, false, true},
		"another's in a third":  {user, other, 0o777 | os.ModeSticky, true, false},
		"another's, not sticky": {user, other, 0o777, true, true},
		"root's in another's":   {user, 0, 0o777 | os.ModeSticky, false, true},
	} {
		dir := filepath.Join(t.TempDir(), "d")
		at := filepath.Join(dir, ".git")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, c.mode), os.Symlink("/nowhere", at), os.Lchown(at, c.own, c.own), os.Chown(dir, c.dir, c.dir)); err != nil {
			t.Fatal(err)
		}
		if got := (OS{}).Foreign(at); got != c.foreign {
			t.Errorf("%s: foreign %v", name, got)
		}
		if got := (OS{}).CanRemove(at); got != c.rootCanRemove {
			t.Errorf("%s: can be removed %v", name, got)
		}
	}
}
