package at

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Both implementations open and refuse the same paths.
func TestOpen(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.MkdirAll(dir+"/a/b", 0o755))
	must(t, os.WriteFile(dir+"/a/f", []byte("x"), 0o644))
	must(t, os.Symlink("a", dir+"/link"))
	must(t, os.Symlink("nowhere", dir+"/dangling"))
	base, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(base)
	const path, itself, directory = unix.O_PATH | unix.O_CLOEXEC, unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	for _, missing := range []bool{false, true} {
		Missing.Store(missing)
		for _, c := range []struct {
			at    int
			path  string
			flags int
			same  string // the file that is opened
			err   error
		}{
			{unix.AT_FDCWD, "/", path, "/", nil},
			{unix.AT_FDCWD, dir + "/a/b", path, dir + "/a/b", nil},
			{unix.AT_FDCWD, dir + "//a/./b/", directory, dir + "/a/b", nil},
			{unix.AT_FDCWD, dir + "/a/f", path, dir + "/a/f", nil},
			{unix.AT_FDCWD, dir + "/a/f", unix.O_RDONLY | unix.O_CLOEXEC, dir + "/a/f", nil},
			{unix.AT_FDCWD, dir + "/link", itself, dir + "/link", nil},
			{unix.AT_FDCWD, dir + "/link", path, "", unix.ELOOP},
			{unix.AT_FDCWD, dir + "/link", directory, "", unix.ELOOP},
			{unix.AT_FDCWD, dir + "/link", unix.O_RDONLY | unix.O_CLOEXEC, "", unix.ELOOP},
			{unix.AT_FDCWD, dir + "/link/b", path, "", unix.ELOOP},
			{unix.AT_FDCWD, dir + "/link/b", itself, "", unix.ELOOP},
			{unix.AT_FDCWD, dir + "/dangling", path, "", unix.ELOOP},
			{unix.AT_FDCWD, dir + "/none", path, "", unix.ENOENT},
			{unix.AT_FDCWD, dir + "/none/x", path, "", unix.ENOENT},
			{unix.AT_FDCWD, dir + "/a/f/x", path, "", unix.ENOTDIR},
			{unix.AT_FDCWD, dir + "/a/f", directory, "", unix.ENOTDIR},
			{base, "a/b", path, dir + "/a/b", nil},
			{base, ".", path, dir, nil},
			{base, "link/b", path, "", unix.ELOOP},
		} {
			fd, err := Open(c.at, c.path, c.flags)
			if err != c.err {
				t.Errorf("missing %v, %s, flags %#x: %v, want %v", missing, c.path, c.flags, err, c.err)
			}
			if err != nil {
				continue
			}
			var got, want unix.Stat_t
			must(t, unix.Fstat(fd, &got))
			must(t, unix.Lstat(c.same, &want))
			if got.Dev != want.Dev || got.Ino != want.Ino {
				t.Errorf("missing %v, %s: something else was opened", missing, c.path)
			}
			unix.Close(fd)
		}
	}
	Missing.Store(false)
	if _, err := unix.FcntlInt(uintptr(base), unix.F_GETFD, 0); err != nil {
		t.Error("the directory was closed")
	}
}
