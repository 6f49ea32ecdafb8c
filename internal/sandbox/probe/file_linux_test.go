package probe

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func missing(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s is there (%v)", path, err)
	}
}

func contains(t *testing.T, path, want string) {
	t.Helper()
	if b, err := os.ReadFile(path); err != nil || string(b) != want {
		t.Errorf("%s contains %q (%v), want %q", path, b, err, want)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	a, b := path("a"), path("b")

	expect(t, "ok", "write-file", a)
	expect(t, "ok", "write-file", a)
	contains(t, a, "probe\nprobe\n")
	if r := run(t, "read-file", a); r.out != "12" || r.code != exitOK {
		t.Errorf("read-file: %+v", r)
	}
	expect(t, "read-file: ENOENT open", "read-file", b)
	expect(t, "ok", "truncate", a)
	expect(t, "ok", "open-write", a)
	expect(t, "ok", "open-read", a)
	contains(t, a, "probe\nprobe\n")
	expect(t, "open-write: ENOENT", "open-write", b)
	expect(t, "open-write: EISDIR", "open-write", dir)
	missing(t, b)

	expect(t, "ok", "link", a, b)
	expect(t, "rename: EEXIST", "rename", a, b)
	expect(t, "link: EEXIST", "link", a, b)
	expect(t, "ok", "unlink", b)
	expect(t, "ok", "rename", a, b)
	missing(t, a)
	expect(t, "ok", "symlink", "b", a)
	expect(t, "symlink: EEXIST", "symlink", "b", a)

	expect(t, "ok", "mkdir", path("d"))
	expect(t, "mkdir: EEXIST", "mkdir", path("d"))
	expect(t, "rmdir: ENOTEMPTY", "rmdir", dir)
	expect(t, "ok", "rmdir", path("d"))
	expect(t, "unlink: EISDIR", "unlink", dir)
}

func TestChmodKeepsTheMode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o751|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	expect(t, "ok", "chmod", file)
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o751|os.ModeSetgid {
		t.Errorf("mode is %v (%v)", info.Mode(), err)
	}
	expect(t, "chmod: ENOENT stat", "chmod", file+"x")
	expect(t, "truncate: ENOENT stat", "truncate", file+"x")
}

func TestMknodLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	node, file := filepath.Join(dir, "n"), filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, "mknod: EEXIST", "mknod", file)
	contains(t, file, "x")
	if r := run(t, "mknod", node); r.out != "ok" && r.out != "mknod: EPERM" {
		t.Errorf("got %+v", r)
	}
	missing(t, node)
}

func TestOpenByDescriptorAndHandle(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	handle, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	c := command(t, "openat-fd", "3", "f")
	c.ExtraFiles = []*os.File{handle}
	if r := finish(t, c); r.out != "ok" {
		t.Errorf("openat-fd with an inherited directory: %+v", r)
	}
	expect(t, "openat-fd: EBADF", "openat-fd", "999", "f")
	self := strconv.Itoa(os.Getpid())
	expect(t, "ok", "proc-root", self, filepath.Join(dir, "f"))
	expect(t, "proc-root: ENOENT", "proc-root", self, filepath.Join(dir, "g"))
	expect(t, "ok", "proc-mem", "self")
	expect(t, "proc-mem: ENOENT", "proc-mem", "0")
	if os.Geteuid() == 0 {
		if r := run(t, "open-by-handle", filepath.Join(dir, "f")); r.out != "ok" && r.out != "open-by-handle: ENOTSUP name_to_handle_at" {
			t.Errorf("open-by-handle: %+v", r)
		}
	}
}
