package statedir_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/statedir"
)

// A server removes the directories of servers that have ended, and none of a
// running server.
func TestStateDirectoriesOfDeadServersAreRemoved(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "server-dead")
	if err := os.MkdirAll(filepath.Join(dead, "spool"), 0o700); err != nil {
		t.Fatal(err)
	}
	open := func() *statedir.Dir {
		d, err := statedir.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		d.Sweep(slog.New(slog.DiscardHandler))
		return d
	}
	count := func() int {
		dirs, _ := filepath.Glob(filepath.Join(dir, "server-*"))
		return len(dirs)
	}
	first := open()
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the dead server's directory is still there: %v", err)
	}
	second := open()
	if count() != 2 {
		t.Errorf("%d directories for two servers", count())
	}
	for i, d := range []*statedir.Dir{first, second} {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if count() != 1-i {
			t.Errorf("%d directories left", count())
		}
	}
}

// Servers that start and end at the same time do not disturb each other.
func TestServersComeAndGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var servers sync.WaitGroup
	for range 4 {
		servers.Go(func() {
			for range 50 {
				d, err := statedir.Open(dir)
				if err != nil {
					t.Error(err)
					return
				}
				d.Sweep(slog.New(slog.DiscardHandler))
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	servers.Wait()
	if left, _ := filepath.Glob(filepath.Join(dir, "server-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A state directory may be named by a relative path or through links. Sandboxes
// hide its real path.
func TestStateDirIsReal(t *testing.T) {
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(real)
	for _, name := range []string{"state", filepath.Join(link, "state")} {
		d, err := statedir.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(real, "state"); d.Shared != want || filepath.Dir(d.Own) != want {
			t.Errorf("%s is %s with %s", name, d.Shared, d.Own)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a keeper reports is found by other programs; a keeper that has nothing to report is not.
func TestNotices(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "level=ERROR msg=\"the worker cannot be started\"\n"} {
		d, err := statedir.Open(dir)
		if err == nil {
			err = os.WriteFile(d.Notice(), []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
	}
	if got := statedir.Notices(dir); len(got) != 1 || got[0] != "level=ERROR msg=\"the worker cannot be started\"" {
		t.Errorf("%q", got)
	}
}

// A durable server has its directory alone, and the next one finds what it has left. An orderly end removes it.
func TestDurableDirectory(t *testing.T) {
	if !filelock.Supported {
		t.Skip("this system has no locks")
	}
	t.Parallel()
	dir := t.TempDir()
	first, err := statedir.OpenDurable(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := statedir.OpenDurable(dir); !errors.Is(err, statedir.ErrInUse) {
		t.Errorf("a second server: %v", err)
	}
	left := filepath.Join(first.Own, "left")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first.Lock().Close() // as if it was killed
	other, err := statedir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	other.Sweep(slog.New(slog.DiscardHandler))
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	second, err := statedir.OpenDurable(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err != nil || !second.Durable() || second.Own != first.Own {
		t.Errorf("%+v, %v", second, err)
	}
	if err := second.Reset(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("after Reset: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(second.Own); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}
