package probe

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/reexec"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// command returns a probe that has not been started. The test program runs
// it.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := reexec.Argv(self, reexec.Probe, args...)
	c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // the race detector waits at exit
	return c
}

// A report is the output of a probe.
type report struct {
	out, err string
	code     int // 128 + the signal if one killed it
}

// run runs a probe to its end.
func run(t *testing.T, args ...string) report {
	t.Helper()
	return finish(t, command(t, args...))
}

func finish(t *testing.T, c *exec.Cmd) report {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatalf("start %q: %v", c.Args, err)
	}
	r := report{strings.TrimSpace(out.String()), strings.TrimSpace(errs.String()), c.ProcessState.ExitCode()}
	if status := c.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		r.code = 128 + int(status.Signal())
	}
	return r
}

// expect runs a probe and compares its whole output. "ok" is success.
func expect(t *testing.T, want string, args ...string) {
	t.Helper()
	code := exitFailed
	if want == "ok" {
		code = exitOK
	}
	if r := run(t, args...); r.out != want || r.code != code {
		t.Errorf("probe %q: exit %d, %q (%s), want exit %d, %q", args, r.code, r.out, r.err, code, want)
	}
}

// asRoot skips a test that needs all privileges of the machine's root: in a
// container root may have less.
func asRoot(t *testing.T) {
	t.Helper()
	r := run(t, "status")
	_, caps, _ := strings.Cut(r.out, "CapEff: ")
	caps, _, _ = strings.Cut(caps, "\n")
	effective, err := strconv.ParseUint(caps, 16, 64)
	if err != nil {
		t.Fatalf("status: %+v: %v", r, err)
	}
	const all = "uid_map: 0 0 4294967295"
	if effective&(1<<unix.CAP_SYS_ADMIN) == 0 || !strings.Contains(r.out, all) || !strings.Contains(r.out, "Seccomp: 0") {
		t.Skip("needs root without limits")
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{
		{}, {"no-such-probe"}, {"socket"}, {"socket", "inet"}, {"socket", "inet", "stream", "x"},
		{"socket", "no-domain", "stream"}, {"socket", "inet", "no-type"}, {"connect-tcp", "localhost"},
		{"unshare", "nothing"}, {"setuid", "root"}, {"kill", "me", "TERM"}, {"kill", "1", "NOSIG"}, {"raise", "0"},
		{"nested"}, {"openat-fd", "x", "y"}, {"ok", "x"}, {"wait-signal", "NOSIG"}, {"x32", "socket"},
	} {
		if r := run(t, args...); r.code != exitUsage || r.out != "" || r.err == "" {
			t.Errorf("probe %q: exit %d, stdout %q, stderr %q; want exit 2 and a text on stderr only", args, r.code, r.out, r.err)
		}
	}
	if r := run(t, "socket"); r.err != "usage: probe socket DOMAIN TYPE" {
		t.Errorf("usage text: %q", r.err)
	}
}

func TestOKPrintsNothing(t *testing.T) {
	if r := run(t, "ok"); r != (report{}) {
		t.Errorf("got %+v", r)
	}
}

// The product has only the probes that `tether doctor` and the trial command of package
// confine use.
// Every other probe belongs in a file whose name begins with attack_.
func TestProductHasNoAttacks(t *testing.T) {
	var offered []string
	for _, p := range probes[:len(probes)-len(attackTable)] {
		offered = append(offered, p.name)
	}
	slices.Sort(offered)
	used := []string{"connect-tcp", "connect-unix", "int80", "io-uring-setup", "kill", "mkdir", "nested", "nested-cgroup", "ok",
		"open-write", "ptrace-child", "read-file", "rename", "socket", "write-file"}
	if !slices.Equal(offered, used) {
		t.Errorf("the product offers %q, want %q", offered, used)
	}
}

func TestNames(t *testing.T) {
	names := names()
	if !slices.IsSorted(names) {
		t.Error("not sorted")
	}
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("not unique: %q", names)
	}
	for _, p := range probes {
		if p.name == "" || strings.Contains(p.name, " ") || p.run == nil {
			t.Errorf("bad row %q", p.name)
		}
	}
}

// The texts of failed probes must not look like a denial.
func TestErrnoNamesDoNotLookLikeDenials(t *testing.T) {
	words := []string{"operation not permitted", "permission denied", "read-only file system",
		"seccomp", "sandbox", "landlock", "failed to write file"}
	for _, p := range probes {
		for _, errno := range []unix.Errno{unix.EPERM, unix.EACCES, unix.EROFS, 4095} {
			text := strings.ToLower(p.describe(at("open", errno)))
			for _, word := range words {
				if strings.Contains(text, word) {
					t.Errorf("%q contains %q", text, word)
				}
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	p := probe{name: "connect-tcp"}
	for want, err := range map[string]error{
		"connect-tcp: EPERM":        unix.EPERM,
		"connect-tcp: EPERM socket": at("socket", unix.EPERM),
		"connect-tcp: SIGSYS":       killedError(unix.SIGSYS),
		"connect-tcp: E4095":        unix.Errno(4095),
	} {
		if got := p.describe(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
