package files

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

func TestWriteFileReplacesAPlainFile(t *testing.T) {
	for _, name := range []string{"f", "l", "dl/in"} {
		dir := fixture(t)
		path := must1(filepath.EvalSymlinks(in(dir, name)))
		before, old := names(t, filepath.Dir(path)), inode(t, path)
		must(t, unix.Setxattr(path, "user.note", []byte(strings.Repeat("keep", 100)), 0))
		if os.Geteuid() == 0 {
			must(t, os.Chown(path, 12, 34))
		}
		must(t, os.Chmod(path, 0o604))
		link, _ := os.Readlink(in(dir, name))
		must(t, direct.WriteFile(ctx, in(dir, name), []byte("new"), true))

		if read(t, path) != "new" || inode(t, path) == old {
			t.Errorf("%s was not replaced: %q", name, read(t, path))
		}
		info := must1(os.Lstat(path))
		if owner := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && (owner.Uid != 12 || owner.Gid != 34) {
			t.Errorf("%s: owner is now %d:%d", name, owner.Uid, owner.Gid)
		}
		if info.Mode() != 0o604 {
			t.Errorf("%s: mode is now %v", name, info.Mode())
		}
		note := make([]byte, 1024)
		if n, err := unix.Getxattr(path, "user.note", note); n != 400 || err != nil {
			t.Errorf("%s: attribute of %d bytes, %v", name, n, err)
		}
		if now, _ := os.Readlink(in(dir, name)); now != link {
			t.Errorf("%s was a link to %q and is one to %q", name, link, now)
		}
		if after := names(t, filepath.Dir(path)); after != before {
			t.Errorf("%s: the directory had %s, has %s", name, before, after)
		}
	}
}

func TestWriteFileInPlace(t *testing.T) {
	for what, prepare := range map[string]func(path string) error{
		"a second hard link": func(path string) error { return os.Link(path, path+"2") },
		"set-group-ID":       func(path string) error { return os.Chmod(path, 0o755|os.ModeSetgid) },
		"capabilities": func(path string) error {
			const version2 = 0x02000000
			value := make([]byte, 20)
			binary.LittleEndian.PutUint32(value, version2)
			return unix.Setxattr(path, "security.capability", value, 0)
		},
		"another user's file in a sticky directory": func(path string) error {
			if err := os.Chmod(filepath.Dir(path), 0o777|os.ModeSticky); err != nil {
				return err
			}
			return os.Chown(path, 12, 34)
		},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		write(t, path, "old and longer")
		if err := prepare(path); err != nil {
			if os.Geteuid() != 0 {
				continue
			}
			t.Fatal(what, err)
		}
		before, old := names(t, dir), inode(t, path)
		must(t, direct.WriteFile(ctx, path, []byte("new"), true))
		if read(t, path) != "new" || inode(t, path) != old || names(t, dir) != before {
			t.Errorf("%s: %q, the same file %v, beside %s", what, read(t, path), inode(t, path) == old, names(t, dir))
		}
	}
}

func TestWriteFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "short")
	old := inode(t, path)
	for _, c := range []struct {
		size int
		same bool
	}{{5, true}, {6, true}, {4096, true}, {4097, false}, {4098, false}, {10, false}, {10, true}, {0, false}, {0, true}} {
		must(t, direct.WriteFile(ctx, path, bytes.Repeat([]byte{'x'}, c.size), true))
		if read(t, path) != strings.Repeat("x", c.size) {
			t.Errorf("%d bytes: there are %d", c.size, len(read(t, path)))
		}
		if now := inode(t, path); (now == old) != c.same {
			t.Errorf("%d bytes: the same file: %v", c.size, now == old)
		} else {
			old = now
		}
	}
}

// On a full disk nothing is written that needs space.
func TestWriteOverFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "old")
	file := must1(os.OpenFile(path, os.O_RDWR, 0))
	defer file.Close()
	expect(t, "more", failed(writeOver(int(file.Fd()), []byte("longer"), true)), enospc)
	if read(t, path) != "old" {
		t.Errorf("now it is %q", read(t, path))
	}
}

func TestWriteFileThroughAKernelLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "the old content")
	file := must1(os.OpenFile(path, os.O_RDWR, 0))
	defer file.Close()
	old := inode(t, path)
	must(t, direct.WriteFile(ctx, at.ProcPath(int(file.Fd())), []byte("new"), true))
	if inode(t, path) != old || read(t, path) != "new" {
		t.Error("an open file was replaced instead of written")
	}
}

func TestWriteFileKeepsAccessLists(t *testing.T) {
	dir := t.TempDir()
	acl := func(group uint16) []byte {
		list := binary.LittleEndian.AppendUint32(nil, 2)
		for _, entry := range [][2]uint16{{1, 6}, {2, 7}, {4, 4}, {0x10, 7}, {0x20, group}} {
			id := ^uint32(0)
			if entry[0] == 2 { // a user of their own
				id = 1234
			}
			list = binary.LittleEndian.AppendUint16(list, entry[0])
			list = binary.LittleEndian.AppendUint16(list, entry[1])
			list = binary.LittleEndian.AppendUint32(list, id)
		}
		return list
	}
	const own, inherited = "system.posix_acl_access", "system.posix_acl_default"
	listed, plain := filepath.Join(dir, "listed"), filepath.Join(dir, "plain")
	write(t, listed, "the old content")
	write(t, plain, "the old content")
	if err := unix.Setxattr(listed, own, acl(4), 0); err != nil {
		need.CannotRun(t, "no access lists here: %v", err)
	}
	must(t, unix.Setxattr(dir, inherited, acl(0), 0))
	for _, path := range []string{listed, plain} {
		want := make([]byte, 256)
		n, wantErr := unix.Getxattr(path, own, want)
		mode, old := must1(os.Stat(path)).Mode(), inode(t, path)
		must(t, direct.WriteFile(ctx, path, []byte("new"), true))
		got := make([]byte, 256)
		m, err := unix.Getxattr(path, own, got)
		if err != wantErr || m != n || !bytes.Equal(got, want) {
			t.Errorf("%s: list %x, %v, want %x, %v", path, got[:max(m, 0)], err, want[:max(n, 0)], wantErr)
		}
		if now := must1(os.Stat(path)).Mode(); now != mode || inode(t, path) == old {
			t.Errorf("%s: mode %v, was %v; replaced: %v", path, now, mode, inode(t, path) != old)
		}
	}
	must(t, direct.WriteFile(ctx, filepath.Join(dir, "new"), nil, true))
	if _, err := unix.Getxattr(filepath.Join(dir, "new"), own, make([]byte, 256)); err != nil {
		t.Errorf("a new file has not inherited the list: %v", err)
	}
}

func TestNewFilesObeyTheUmask(t *testing.T) {
	dir := t.TempDir()
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	must(t, direct.WriteFile(ctx, filepath.Join(dir, "written"), nil, true))
	must1(direct.Replace(ctx, filepath.Join(dir, "replaced"))).Close()
	must(t, direct.CreateDirectory(ctx, filepath.Join(dir, "made/deep"), true, true))
	for name, want := range map[string]os.FileMode{
		"written": 0o640, "replaced": 0o640, "made": 0o750 | os.ModeDir, "made/deep": 0o750 | os.ModeDir,
	} {
		if mode := must1(os.Stat(filepath.Join(dir, name))).Mode(); mode != want {
			t.Errorf("%s: %v, want %v", name, mode, want)
		}
	}
}

func TestWithoutPermissions(t *testing.T) {
	theirs, mine, ok := asNobody(t)
	if !ok {
		return
	}
	old := inode(t, theirs+"/mine")
	must(t, direct.WriteFile(ctx, theirs+"/mine", []byte("new"), true))
	if read(t, theirs+"/mine") != "new" || inode(t, theirs+"/mine") != old {
		t.Error("my file in their directory was not written in place")
	}
	old = inode(t, mine+"/theirs")
	must(t, direct.WriteFile(ctx, mine+"/theirs", []byte("new"), false))
	if read(t, mine+"/theirs") != "new" || inode(t, mine+"/theirs") != old {
		t.Error("their file in my directory was not written in place")
	}
	expect(t, "new in theirs", direct.WriteFile(ctx, theirs+"/new", nil, true), eacces)

	write(t, mine+"/secret", "x")
	must(t, os.Chmod(mine+"/secret", 0))
	must(t, os.Mkdir(mine+"/closed", 0))
	must(t, unix.Mkfifo(mine+"/fifo", 0))
	for _, name := range []string{"secret", "closed", "fifo", "closed/x"} {
		for _, follow := range []bool{true, false} {
			_, err := direct.Open(ctx, mine+"/"+name, follow)
			expect(t, "open "+name, err, eacces)
		}
	}
	expect(t, "write", direct.WriteFile(ctx, mine+"/secret", nil, true), eacces)
	_, err := direct.Replace(ctx, mine+"/fifo")
	expect(t, "replace", err, eacces)
	_, err = direct.ReadDirectory(ctx, mine+"/closed")
	expect(t, "list", err, eacces)
	write(t, mine+"/source", "content")
	expect(t, "copy to theirs", direct.Copy(ctx, mine+"/source", mine+"/theirs", false), eperm)
	if read(t, mine+"/theirs") != "new" {
		t.Error("a refused copy has emptied its destination")
	}
	expect(t, "remove", direct.Remove(ctx, mine+"/tree", RemoveHow{Recursive: true, Follow: true}), eacces)
	if names(t, mine) != "closed fifo secret source theirs tree" {
		t.Errorf("left: %s", names(t, mine))
	}
	walkWithoutRights(t, mine)
}

// mounting returns the attributes of a process that may mount a file system
// in a namespace of its own.
func mounting() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// On a read-only disk, removing a missing file still reports that it is
// missing.
func TestRemoveFromReadOnlyDisk(t *testing.T) {
	if !elsewhere(t, mounting()) {
		return
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, ""); err != nil {
		t.Skipf("cannot mount a disk: %v", err)
	}
	defer func() { must(t, unix.Unmount(disk, 0)) }()
	write(t, disk+"/f", "content")
	must(t, os.Mkdir(disk+"/d", 0o755))
	must(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	erofs := outcome{intl, "Read-only file system (os error 30)"}
	for i := range 8 {
		how := RemoveHow{Recursive: i&1 > 0, Force: i&2 > 0, Follow: i&4 > 0}
		if how.Recursive && !how.Follow {
			continue
		}
		missing := enoent
		if how.Force {
			missing = fine
		}
		for name, want := range map[string]outcome{"none": missing, "none/x": missing, "f": erofs, "d": erofs} {
			expect(t, fmt.Sprintf("%s %+v", name, how), direct.Remove(ctx, filepath.Join(disk, name), how), want)
		}
	}
}

func TestFullDisk(t *testing.T) {
	if !elsewhere(t, mounting()) {
		return
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	defer func() { must(t, unix.Unmount(disk, 0)) }() // fails if a file was left open
	content := strings.Repeat("old ", 10_000)
	for _, name := range []string{"f", "hard"} {
		write(t, filepath.Join(disk, name), content)
	}
	must(t, os.Link(filepath.Join(disk, "hard"), filepath.Join(disk, "hard2")))
	must(t, os.Symlink("f", filepath.Join(disk, "l")))
	before := names(t, disk)
	big := bytes.Repeat([]byte("new "), 100_000)
	for _, name := range []string{"f", "l", "hard", "missing"} {
		expect(t, name, direct.WriteFile(ctx, filepath.Join(disk, name), big, true), enospc)
		if name != "missing" && read(t, filepath.Join(disk, name)) != content {
			t.Errorf("%s has lost its content", name)
		}
	}
	if after := names(t, disk); after != before {
		t.Errorf("there was %s, now %s", before, after)
	}
	write(t, filepath.Join(disk, "rest"), "")
	for rest := must1(os.OpenFile(filepath.Join(disk, "rest"), os.O_WRONLY, 0)); ; {
		if _, err := rest.Write(big[:4096]); err != nil {
			rest.Close()
			break
		}
	}
	must(t, direct.WriteFile(ctx, filepath.Join(disk, "f"), []byte("small"), true))
	if read(t, filepath.Join(disk, "f")) != "small" {
		t.Error("data that fits into the old file was not written")
	}
}
