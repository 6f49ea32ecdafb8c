package upload

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/need"
	"github.com/tetherexec/tether/wire"
)

// send uploads data to a name in one request.
func (s *site) send(name string, data string, mode *uint32) {
	s.Helper()
	id := rand.Text()
	p := s.params(id, name, len(data))
	p.Mode = mode
	if _, err := s.tryOpen(p); err != nil {
		s.Fatal(err)
	}
	s.write(id, 0, []byte(data))
	s.commit(id, []byte(data))
	s.holds(name, []byte(data))
}

func (s *site) mode(name string) os.FileMode {
	s.Helper()
	info, err := os.Stat(s.path(name))
	if err != nil {
		s.Fatal(err)
	}
	return info.Mode()
}

// A new file has the requested mode, or the mode of any new file. An existing file
// keeps its mode, without the set-id bits.
func TestMode(t *testing.T) {
	s := newSite(t)
	plain, err := os.OpenFile(s.path("plain"), os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	plain.Close()
	s.put("script", "old", 0o751)
	s.put("setuid", "old", os.ModeSetuid|0o755)
	asked := uint32(0o642)
	s.send("new", "data", nil)
	s.send("asked", "data", &asked)
	s.send("script", "data", &asked)
	s.send("setuid", "data", nil)
	for name, want := range map[string]os.FileMode{"new": s.mode("plain"), "asked": 0o642, "script": 0o751, "setuid": 0o755} {
		if got := s.mode(name); got != want {
			t.Errorf("%s has mode %v, want %v", name, got, want)
		}
	}
}

func TestOwnerIsKept(t *testing.T) {
	if os.Geteuid() != 0 {
		need.CannotRun(t, "only root can give files away")
	}
	s := newSite(t)
	s.put("f", "old", 0o640)
	if err := os.Chown(s.path("f"), 1234, 2345); err != nil {
		t.Fatal(err)
	}
	s.send("f", "data", nil)
	var st unix.Stat_t
	if err := unix.Stat(s.path("f"), &st); err != nil || st.Uid != 1234 || st.Gid != 2345 || st.Mode&0o7777 != 0o640 {
		t.Errorf("uid %d, gid %d, mode %o, %v", st.Uid, st.Gid, st.Mode, err)
	}
}

// asNobody runs f with the file permissions of an ordinary user, who owns
// dir.
func asNobody(t *testing.T, dir string, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		need.CannotRun(t, "only root can become another user")
	}
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer unix.Setfsuid(0)
	defer unix.Setfsgid(0)
	unix.Setfsgid(nobody)
	unix.Setfsuid(nobody)
	f()
}

// A directory's owner could rename over any file in it, but an upload is a write:
// it needs write permission for the file, and keeps its owner.
func TestWritePermissionIsNeeded(t *testing.T) {
	s := newSite(t)
	s.table = New(Config{}) // the journal belongs to root
	defer s.table.Close()
	s.put("protected", "old", 0o644)
	s.put("shared", "old", 0o666)
	s.put("late", "old", 0o666)
	if err := os.Chown(s.path("late"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	// An ordinary user must be able to search every directory of the path.
	for dir := s.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, s.dir, func() {
		_, err := s.tryOpen(s.params("a", "protected", 1))
		s.fails(err, syscall.EACCES, wire.CodeInvalidRequest)
		_, err = s.tryOpen(s.params("b", "shared", 1))
		s.fails(err, ErrOwner, wire.CodeInvalidRequest)
		s.open("c", "late", 4)
		s.write("c", 0, []byte("data"))
	})
	if err := os.Chown(s.path("late"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.path("late"), 0o644); err != nil {
		t.Fatal(err)
	}
	asNobody(t, s.dir, func() {
		s.fails(s.tryCommit("c", []byte("data")), syscall.EACCES, wire.CodeInvalidRequest)
	})
	s.holds("late", []byte("old"))
	if len(s.left()) != 1 {
		t.Errorf("left: %v", s.left())
	}
}

// acl returns the attribute for an access list that lets a user read and
// write.
func acl(user uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, 1<<32 - 1}, {2, 6, user}, {4, 4, 1<<32 - 1}, {16, 6, 1<<32 - 1}, {32, 0, 1<<32 - 1}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// The replaced file's access list is kept; the directory's default list applies
// only to new files.
func TestAccessListIsKept(t *testing.T) {
	s := newSite(t)
	s.put("listed", "old", 0o644)
	s.put("unlisted", "old", 0o604)
	if err := unix.Setxattr(s.path("listed"), accessList, acl(1234), 0); err != nil {
		need.CannotRun(t, "no access lists here: %v", err)
	}
	if err := unix.Setxattr(s.dir, "system.posix_acl_default", acl(2345), 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(s.path("listed"), "user.note", bytes.Repeat([]byte("n"), 1000), 0); err != nil {
		need.CannotRun(t, "no attributes here: %v", err)
	}
	for name, want := range map[string][]byte{"listed": acl(1234), "unlisted": nil, "new": acl(2345)} {
		s.send(name, "data", nil)
		if list, err := attribute(s.path(name), accessList); !bytes.Equal(list, want) {
			t.Errorf("%s: %x, %v", name, list, err)
		}
	}
	if s.mode("unlisted") != 0o604 {
		t.Errorf("unlisted has mode %v", s.mode("unlisted"))
	}
	if note, err := attribute(s.path("listed"), "user.note"); len(note) != 1000 {
		t.Errorf("note: %d bytes, %v", len(note), err)
	}
}

// Links stay, and their targets are replaced or made.
func TestLinksAreFollowed(t *testing.T) {
	s := newSite(t)
	if err := os.MkdirAll(s.path("real/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.put("real/deep/f", "old", 0o640)
	for name, to := range map[string]string{
		"abs": s.path("real/deep/f"), "chain": "dir/rel", "dir": "real", "real/rel": "deep/../deep/f",
		"dangling": "real/made", "outside": "missing/made", "loop": "loop", "todir": "real", "slash": "real/deep/",
	} {
		if err := os.Symlink(to, s.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"abs", "chain", "dangling"} {
		s.send(name, "new by "+name, nil)
		if info, err := os.Lstat(s.path(name)); err != nil || info.Mode().Type() != os.ModeSymlink {
			t.Errorf("%s is no link any more: %v", name, err)
		}
	}
	s.holds("real/deep/f", []byte("new by chain"))
	s.holds("real/made", []byte("new by dangling"))
	if s.mode("real/deep/f") != 0o640 {
		t.Error("the mode was lost on the way")
	}
	for name, want := range map[string]error{"outside": syscall.ENOENT, "loop": syscall.ELOOP, "todir": syscall.EISDIR, "slash": syscall.EISDIR} {
		_, err := s.tryOpen(s.params("x", name, 1))
		code := wire.CodeInternal
		if want == syscall.ENOENT {
			code = wire.CodeNotFound
		}
		s.fails(err, want, code)
	}
}

// A target that is not a file is refused at once, and no request waits for the other
// end of a FIFO.
func TestTargetMustBeFile(t *testing.T) {
	s := newSite(t)
	s.put("file", "old", 0o644)
	if err := unix.Mkfifo(s.path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		err  error
		code int
	}{
		s.dir:                 {syscall.EISDIR, wire.CodeInternal},
		s.path("new") + "/":   {syscall.EISDIR, wire.CodeInternal},
		s.path("file") + "/":  {syscall.EISDIR, wire.CodeInternal},
		"/":                   {syscall.EISDIR, wire.CodeInternal},
		s.path("fifo"):        {ErrNotRegular, wire.CodeInvalidRequest},
		"/dev/null":           {ErrNotRegular, wire.CodeInvalidRequest},
		s.path("none/f"):      {syscall.ENOENT, wire.CodeNotFound},
		s.path("file/f"):      {syscall.ENOTDIR, wire.CodeInternal},
		"/proc/self/fd/x":     {syscall.ENOENT, wire.CodeNotFound},
		s.path(longName(256)): {syscall.ENAMETOOLONG, wire.CodeInternal},
	} {
		p := wire.UploadOpenParams{UploadID: "a", Path: uri(path), Size: 1}
		_, err := s.tryOpen(p)
		s.fails(err, want.err, want.code)
	}
	_, _, err := Direct(context.Background(), "/a\x00b")
	if err != syscall.EINVAL {
		t.Errorf("NUL: %v", err)
	}
	s.send(longName(255), "data", nil) // the temporary file's name does not contain it
}

func longName(n int) string { return strings.Repeat("n", n) }

// The directory of an upload is the one that existed when it was opened.
func TestParentSwappedForLink(t *testing.T) {
	s := newSite(t)
	for _, dir := range []string{"work", "elsewhere"} {
		if err := os.Mkdir(s.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		s.put(dir+"/f", "old", 0o644)
	}
	s.open("a", "work/f", 4)
	s.open("b", "work/g", 4)
	if err := errors.Join(os.Rename(s.path("work"), s.path("moved")), os.Symlink("elsewhere", s.path("work"))); err != nil {
		t.Fatal(err)
	}
	s.write("a", 0, []byte("data"))
	s.commit("a", []byte("data"))
	s.abort("b")
	s.holds("moved/f", []byte("data"))
	s.holds("elsewhere/f", []byte("old"))
	s.clean()
}

// Changes to the target or the temporary file in between are noticed.
func TestChangesBeforeCommitAreNoticed(t *testing.T) {
	data := []byte("data")
	for name, test := range map[string]struct {
		change func(s *site, temp string) error
		want   error
		code   int
	}{
		"a link": {func(s *site, _ string) error {
			return errors.Join(os.Remove(s.path("f")), os.Symlink("other", s.path("f")))
		}, ErrChanged, wire.CodeInvalidRequest},
		"a directory": {func(s *site, _ string) error {
			return errors.Join(os.Remove(s.path("f")), os.Mkdir(s.path("f"), 0o755))
		}, syscall.EISDIR, wire.CodeInternal},
		"removed":   {func(_ *site, temp string) error { return os.Remove(temp) }, ErrChanged, wire.CodeInvalidRequest},
		"truncated": {func(_ *site, temp string) error { return os.Truncate(temp, 2) }, ErrChanged, wire.CodeInvalidRequest},
		"replaced": {func(_ *site, temp string) error {
			return errors.Join(os.Remove(temp), os.WriteFile(temp, data, 0o644))
		}, ErrChanged, wire.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.put("other", "other", 0o644)
			s.put("f", "old", 0o644)
			s.open("a", "f", 4)
			s.write("a", 0, data)
			if err := test.change(s, s.left()[0]); err != nil {
				t.Fatal(err)
			}
			s.fails(s.tryCommit("a", data), test.want, test.code)
			s.holds("other", []byte("other"))
		})
	}
}

// After a failed sync the content on the disk is unknown: everything must be sent
// again.
func TestFailedSync(t *testing.T) {
	s := newSite(t)
	s.put("f", "old", 0o644)
	fail := true
	s.table.sync = func(f *os.File) error {
		if fail {
			return syscall.EIO
		}
		return f.Sync()
	}
	s.open("a", "f", 4)
	s.write("a", 0, []byte("data"))
	s.fails(s.tryCommit("a", []byte("data")), syscall.EIO, wire.CodeInternal)
	s.holds("f", []byte("old"))
	if info, err := os.Stat(s.left()[0]); err != nil || info.Mode() != 0o600 {
		t.Errorf("the temporary file has mode %v, %v", info.Mode(), err)
	}
	fail = false
	s.fails(s.tryCommit("a", []byte("data")), ErrIncomplete, wire.CodeInvalidRequest)
	s.write("a", int(s.open("a", "f", 4).Offset), []byte("data"))
	s.commit("a", []byte("data"))
	s.holds("f", []byte("data"))
}
