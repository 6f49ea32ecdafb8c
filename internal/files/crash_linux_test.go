package files

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// A process that dies while it writes a file leaves no temporary file, and the
// old content stays.
func TestWriteFileCrash(t *testing.T) {
	if path := os.Getenv(partEnv); path != "" {
		// Beyond this size the kernel kills the process, in the middle of the write.
		limit := unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}
		must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
		var killing [4]uint64 // struct sigaction with the default, which Go has changed
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGXFSZ), uintptr(unsafe.Pointer(&killing)), 0, 8, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
		t.Fatalf("it was written: %v", direct.WriteFile(ctx, path, make([]byte, 1<<20), true))
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "old"), "the old content")
	for _, name := range []string{"new", "old"} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), partEnv+"="+filepath.Join(dir, name))
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != unix.SIGXFSZ {
			t.Fatalf("%s: the process did not end in its write: %v\n%s", name, err, out)
		}
		if left := names(t, dir); left != "old" {
			t.Errorf("%s: the directory has %s", name, left)
		}
	}
	if text := read(t, filepath.Join(dir, "old")); text != "the old content" {
		t.Errorf("the old file has %q", text)
	}
}

// If files without a name cannot be made or linked, a file with a hidden name is used.
func TestWriteFileByName(t *testing.T) {
	dir := fixture(t)
	before := names(t, dir)
	p := must1(find(filepath.Join(dir, "new"), true))
	defer p.close()
	must(t, p.createBy([]byte("new content"), true))
	for _, named := range []bool{true, false} {
		if err := p.createBy([]byte("another"), named); err != errAppeared {
			t.Errorf("a second time, named %v: %v", named, err)
		}
	}
	if text := read(t, filepath.Join(dir, "new")); text != "new content" {
		t.Errorf("it has %q", text)
	}
	must(t, os.Remove(filepath.Join(dir, "new")))
	old := must1(os.OpenFile(filepath.Join(dir, "f"), os.O_WRONLY, 0))
	defer old.Close()
	file := nameAt{p.dir, "f"}
	var st unix.Statx_t
	must(t, statx(int(old.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st))
	for _, named := range []bool{true, false} {
		was := inode(t, filepath.Join(dir, "f"))
		must(t, file.replaceBy(int(old.Fd()), st, []byte("replaced"), named))
		if text := read(t, filepath.Join(dir, "f")); text != "replaced" || inode(t, filepath.Join(dir, "f")) == was {
			t.Errorf("named %v: the file has %q", named, text)
		}
	}
	if after := names(t, dir); after != before {
		t.Errorf("the directory had %s, has %s", before, after)
	}
}

// A file without a name that ignores the umask is not used: other users could write it.
func TestWriteFileWithoutUmask(t *testing.T) {
	before := at.Umask
	defer func() { at.Umask = before }()
	dir := t.TempDir()
	p := must1(find(filepath.Join(dir, "new"), true))
	defer p.close()
	if file, err := at.NewTemporary(p.dir, 0o666, false); err != nil {
		t.Errorf("with umask %03o: %v", at.Umask(), err)
	} else {
		finish(file)
	}
	at.Umask = func() uint32 { return 0o777 } // as if the kernel had ignored it
	if _, err := at.NewTemporary(p.dir, 0o666, false); err != at.ErrNeedsName {
		t.Errorf("with a umask that is ignored: %v", err)
	}
	must(t, direct.WriteFile(ctx, filepath.Join(dir, "new"), []byte("x"), true))
	info := must1(os.Stat(filepath.Join(dir, "new")))
	if mode := uint32(info.Mode().Perm()); mode != 0o666&^before() || names(t, dir) != "new" {
		t.Errorf("the new file has mode %03o, and the directory has %s", mode, names(t, dir))
	}
}
