package files

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// Now and then the kernel has to wait even for data in memory, for example while
// another process mounts or renames something. So the test tries several times.
const cacheTries = 1000

// readCached reads at most room bytes. If the data is expected to be in memory, it
// tries again.
func readCached(path string, room int, inMemory bool) ([]byte, bool) {
	b := make([]byte, room)
	for range cacheTries {
		if n, ok := (Direct{}).ReadCached(path, b); ok {
			return b[:n], true
		}
		if !inMemory {
			break
		}
	}
	return nil, false
}

// A file in memory is read; everything else is left to Open.
func TestReadCached(t *testing.T) {
	dir := diskDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	content := bytes.Repeat([]byte("x"), 1000)
	for name, data := range map[string][]byte{"file": content, "empty": nil} {
		if err := os.WriteFile(at(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("file", at("link")); err != nil {
		t.Fatal(err)
	}
	// A link whose access time lies behind its change waits for the disk to note the next
	// access, and clock ticks decide how often that happens; one read in the future never does.
	soon := unix.NsecToTimespec(time.Now().Add(time.Hour).UnixNano())
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, at("link"), []unix.Timespec{soon, {Nsec: unix.UTIME_OMIT}}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := readCached(at("file"), 1001, true); !ok {
		need.CannotRun(t, "the file system of %s does not say what is in memory", dir)
	}
	for _, row := range []struct {
		path string
		room int
		want []byte
		ok   bool
	}{
		{at("file"), 1001, content, true},
		{at("nothing/../link"), 4096, content, true},
		{at("empty"), 1, nil, true},
		{at("file"), 1000, nil, false}, // it could be longer
		{at("missing"), 4096, nil, false},
		{at("fifo"), 4096, nil, false},
		{dir, 4096, nil, false},
		{"/proc/self/status", 1 << 16, nil, false},
		{"/dev/null", 4096, nil, false},
		{"relative", 4096, nil, false},
	} {
		got, ok := readCached(row.path, row.room, row.ok)
		if ok != row.ok || ok && !bytes.Equal(got, row.want) {
			t.Errorf("%s in %d bytes: %d bytes, %v", row.path, row.room, len(got), ok)
		}
	}
}

// diskDir returns a directory on a disk: temporary directories may be in memory, where the kernel does not tell what is cached.
func diskDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return dir
	}
	dir, err := os.MkdirTemp(".", ".cached-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ReadCached does not wait for content on the disk.
func TestReadCachedCold(t *testing.T) {
	name := filepath.Join(diskDir(t), "file")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if _, ok := readCached(name, 4096, true); !ok {
		need.CannotRun(t, "the file system does not say what is in memory")
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		need.CannotRun(t, "all files are in memory here (%v)", err)
	}
	var b []byte
	for range cacheTries { // another process may be using the page
		if err := file.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
		ok := false
		if b, ok = readCached(name, 4096, false); !ok {
			return
		}
	}
	t.Errorf("read %d bytes that are on the disk", len(b))
}
