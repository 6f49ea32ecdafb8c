package at

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A temporary file, with or without a name, appears under a new name, replaces an existing file, and
// otherwise leaves nothing behind.
func TestTemporary(t *testing.T) {
	dir := t.TempDir()
	fd, err := Openat(unix.AT_FDCWD, dir, Directory, 0)
	must(t, err)
	defer unix.Close(fd)
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprintf("named %v", named), func(t *testing.T) {
			must(t, os.WriteFile(dir+"/old", []byte("old"), 0o644))
			for _, c := range []struct {
				name string
				do   func(*Temporary) error
				err  error
				old  string // the content of the old file afterwards
				new  string // the content of the new name afterwards; empty: it is missing
			}{
				{"appear", func(f *Temporary) error { return f.Appear("new") }, nil, "old", "content"},
				{"appear again", func(f *Temporary) error { return f.Appear("old") }, unix.EEXIST, "old", ""},
				{"give up", func(f *Temporary) error { return nil }, nil, "old", ""},
				{"replace", func(f *Temporary) error { return f.Replace("old") }, nil, "content", ""},
				{"replace nothing", func(f *Temporary) error { return f.Replace("new") }, nil, "content", "content"},
			} {
				f, err := NewTemporary(fd, 0o600, named)
				if err == ErrNeedsName {
					t.Skip("this file system has no files without a name")
				}
				must(t, err)
				_, err = unix.Write(f.Fd, []byte("content"))
				must(t, err)
				if err := c.do(f); err != c.err {
					t.Errorf("%s: %v, want %v", c.name, err, c.err)
				}
				must(t, f.Remove())
				unix.Close(f.Fd)
				left, err := os.ReadDir(dir)
				must(t, err)
				want := 1
				if c.new != "" {
					want = 2
				}
				old, _ := os.ReadFile(dir + "/old")
				fresh, _ := os.ReadFile(dir + "/new")
				if len(left) != want || string(old) != c.old || string(fresh) != c.new {
					t.Errorf("%s: the directory has %v, old %q, new %q", c.name, left, old, fresh)
				}
				os.Remove(dir + "/new")
			}
		})
	}
}

// CopyAttributes adds missing attributes, changes different ones and removes those that the other file
// does not have.
func TestCopyAttributes(t *testing.T) {
	dir := t.TempDir()
	from, err := os.Create(dir + "/from")
	must(t, err)
	defer from.Close()
	to, err := os.Create(dir + "/to")
	must(t, err)
	defer to.Close()
	set := func(f *os.File, name, value string) {
		t.Helper()
		if err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0); err == unix.EOPNOTSUPP {
			t.Skip("this file system has no attributes of users")
		} else {
			must(t, err)
		}
	}
	long := string(make([]byte, 1000))
	set(from, "user.long", long)
	set(from, "user.changed", "new")
	set(to, "user.changed", "old")
	set(to, "user.extra", "x")
	must(t, CopyAttributes(int(from.Fd()), int(to.Fd())))
	for name, want := range map[string]string{"user.long": long, "user.changed": "new", "user.extra": ""} {
		if got, _ := attributeOf(int(to.Fd()), name); string(got) != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
