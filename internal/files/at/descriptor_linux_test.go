package at

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenParent(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Mkdir(dir+"/a", 0o755))
	must(t, os.Symlink("a", dir+"/link"))
	for _, c := range []struct {
		path, parent, name string
		err                error
	}{
		{dir + "/a", dir, "a", nil},
		{dir + "/link", dir, "link", nil},
		{dir + "/a/none", dir + "/a", "none", nil},
		{"/", "/", ".", nil},
		{dir + "/link/x", "", "x", unix.ELOOP},
		{dir + "/none/x", "", "x", unix.ENOENT},
	} {
		fd, name, err := OpenParent(c.path)
		if err != c.err || name != c.name {
			t.Errorf("%s: name %q, %v, want %q, %v", c.path, name, err, c.name, c.err)
		}
		if err != nil {
			continue
		}
		if real, err := PathOf(fd); err != nil || real != c.parent {
			t.Errorf("%s: opened %s, %v, want %s", c.path, real, err, c.parent)
		}
		unix.Close(fd)
	}
	if _, err := OpenUnlinked(unix.AT_FDCWD, dir+"/link/x", unix.O_PATH|unix.O_CLOEXEC); err != unix.ENOTDIR {
		t.Errorf("OpenUnlinked through a link: %v, want ENOTDIR", err)
	}
}

func TestPathOf(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.WriteFile(dir+"/f", nil, 0o644))
	must(t, os.Symlink("f", dir+"/link"))
	file, err := os.Open(dir + "/link")
	must(t, err)
	defer file.Close()
	expect := func(when, want string) {
		t.Helper()
		if got, err := PathOf(int(file.Fd())); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", when, got, err, want)
		}
	}
	expect("through a link", dir+"/f")
	must(t, os.Rename(dir+"/f", dir+"/g"))
	expect("moved", dir+"/g")
	must(t, os.Remove(dir+"/g"))
	expect("removed", dir+"/g"+Deleted)

	end, other, err := os.Pipe()
	must(t, err)
	defer end.Close()
	defer other.Close()
	if got, err := PathOf(int(end.Fd())); err != unix.ENOENT {
		t.Errorf("a pipe lies at %q, %v, want ENOENT", got, err)
	}
}

func TestReadLink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("some where", dir+"/link"))
	must(t, os.WriteFile(dir+"/f", nil, 0o644))
	fd, err := Openat(unix.AT_FDCWD, dir+"/link", unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	for what, link := range map[string]struct {
		dir  int
		name string
		want string
		err  error
	}{
		"by name":       {unix.AT_FDCWD, dir + "/link", "some where", nil},
		"by descriptor": {fd, "", "some where", nil},
		"a file":        {unix.AT_FDCWD, dir + "/f", "", unix.EINVAL},
		"missing":       {unix.AT_FDCWD, dir + "/none", "", unix.ENOENT},
	} {
		if got, err := ReadLink(link.dir, link.name); got != link.want || err != link.err {
			t.Errorf("%s: %q, %v, want %q, %v", what, got, err, link.want, link.err)
		}
	}
}

// Kernels without close_range need a search for the open descriptors.
func TestEachFrom(t *testing.T) {
	const high = 700 // no other descriptor of this test program is as high
	for _, fd := range []int{high - 1, high, high + 5} {
		if err := unix.Dup3(0, fd, 0); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	if err := eachFrom(high, unix.CloseOnExec); err != nil {
		t.Fatal(err)
	}
	for fd, want := range map[int]int{high - 1: 0, high: unix.FD_CLOEXEC, high + 5: unix.FD_CLOEXEC} {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags != want {
			t.Errorf("descriptor %d has flags %d, %v", fd, flags, err)
		}
	}
}
