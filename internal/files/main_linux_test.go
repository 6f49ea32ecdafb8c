package files

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// partEnv names the test of which this process runs a part, as another user or
// on a disk of its own.
const partEnv = "TETHER_FSRPC_TEST"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// elsewhere runs the calling test again in another process. It returns true in
// that process only.
func elsewhere(t *testing.T, attr *syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv(partEnv) == t.Name() {
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), partEnv+"="+t.Name())
	cmd.SysProcAttr = attr
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSPC):
		need.CannotRun(t, "another process with other rights: %v", err)
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		need.CannotRun(t, "%s", out)
	case !strings.Contains(string(out), "--- PASS"):
		t.Fatalf("the other process tested nothing:\n%s", out)
	}
	return false
}

// asNobody runs the calling test again as an unprivileged user. It returns true
// there, with a directory of root, which it may not change, and one of its own.
func asNobody(t *testing.T) (theirs, mine string, ok bool) {
	t.Helper()
	const nobody = 65534
	if os.Getenv(partEnv) == "" && os.Geteuid() != 0 {
		need.CannotRun(t, "only root can become another user")
	}
	if os.Getenv(partEnv) == "" {
		base, err := os.MkdirTemp("", "files")
		must(t, err)
		t.Cleanup(func() { os.RemoveAll(base) })
		must(t, os.Chmod(base, 0o755))
		must(t, os.Mkdir(filepath.Join(base, "theirs"), 0o755))
		must(t, os.Mkdir(filepath.Join(base, "mine"), 0o755))
		must(t, os.Chown(filepath.Join(base, "mine"), nobody, nobody))
		write(t, filepath.Join(base, "theirs/mine"), "the old content")
		must(t, os.Chown(filepath.Join(base, "theirs/mine"), nobody, nobody))
		write(t, filepath.Join(base, "mine/theirs"), "the old content")
		must(t, os.Chmod(filepath.Join(base, "mine/theirs"), 0o666))
		must(t, os.MkdirAll(filepath.Join(base, "mine/tree/theirs"), 0o755))
		must(t, os.Chown(filepath.Join(base, "mine/tree"), nobody, nobody))
		write(t, filepath.Join(base, "mine/tree/theirs/file"), "old")
		t.Setenv("FSRPC_BASE", base)
	}
	base := os.Getenv("FSRPC_BASE")
	ok = elsewhere(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}})
	return filepath.Join(base, "theirs"), filepath.Join(base, "mine"), ok
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

func inode(t testing.TB, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st.Ino
}

// names lists a directory, so that every temporary file is noticed.
func names(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return strings.Join(all, " ")
}

// fixture makes a directory with one file of each kind.
func fixture(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, name := range []string{"d", "d/sub", "e"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	write(t, filepath.Join(dir, "d/in"), "inside")
	write(t, filepath.Join(dir, "f"), "hello")
	must(t, os.Chmod(filepath.Join(dir, "f"), 0o751))
	for name, target := range map[string]string{
		"l": "f", "dl": "d", "dang": "nowhere", "loop": "loop", "fifol": "fifo", "d/lnk": "in",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	must(t, unix.Mkfifo(filepath.Join(dir, "d/ff"), 0o644))
	must(t, unix.Mknod(filepath.Join(dir, "sock"), unix.S_IFSOCK|0o644, 0))
	return dir
}

// An outcome is the expected result of a request: success, or a code and a text in
// which DIR stands for the fixture.
type outcome struct {
	code int
	text string
}

const (
	inv  = -32600
	intl = -32603
	nf   = -32004
)

var (
	fine     = outcome{}
	enoent   = outcome{nf, "No such file or directory (os error 2)"}
	enotdir  = outcome{intl, "Not a directory (os error 20)"}
	eisdir   = outcome{intl, "Is a directory (os error 21)"}
	eexist   = outcome{intl, "File exists (os error 17)"}
	eloop    = outcome{intl, "Symbolic link loop (os error 40)"}
	enxio    = outcome{intl, "No such device or address (os error 6)"}
	ename    = outcome{intl, "Filename too long (os error 36)"}
	ebusy    = outcome{intl, "Resource busy (os error 16)"}
	enospc   = outcome{intl, "No space left on device (os error 28)"}
	etxtbsy  = outcome{intl, "Text file busy (os error 26)"}
	nonempty = outcome{intl, "Directory not empty (os error 39)"}
	eacces   = outcome{inv, "Permission denied (os error 13)"}
	eperm    = outcome{inv, "Operation not permitted (os error 1)"}
	einval   = outcome{inv, "Invalid argument (os error 22)"}
	nul      = outcome{inv, "file name contained an unexpected NUL byte"}
	linked   = outcome{inv, "path contains a symbolic link"}
	irregu   = outcome{inv, "path is not a regular file"}
	noEntry  = outcome{inv, "path must name an entry"}
)

func notAFile(name string) outcome { return outcome{inv, "path `" + name + "` is not a file"} }

// expect compares the result of a request with the expected one.
func expect(t *testing.T, what string, err error, want outcome) {
	t.Helper()
	if err == nil && want == fine {
		return
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code() != want.code || e.Error() != want.text {
		t.Errorf("%s: %v, want %d %q", what, err, want.code, want.text)
	}
}

// in returns the path of a name in dir; an absolute path stays.
func in(dir, name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return dir + "/" + name // not cleaned
}

// bothWays runs a test with openat2 and without.
func bothWays(t *testing.T, test func(t *testing.T)) {
	t.Run("openat2", test)
	t.Run("stepwise", func(t *testing.T) {
		at.Missing.Store(true)
		defer at.Missing.Store(false)
		test(t)
	})
}

var (
	ctx    = context.Background()
	direct Direct

	longName = strings.Repeat("x", 256)
	longPath = strings.Repeat(strings.Repeat("y", 200)+"/", 21) + "y"
)
