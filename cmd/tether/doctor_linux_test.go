package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/doctor"
)

// released builds the program as it is released, once: it is static, and other users can
// execute it.
func released(t *testing.T) string {
	t.Helper()
	path, err := buildRelease()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildRelease = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("/var/tmp", "tether-release-")
	if err != nil {
		return "", err
	}
	removeLater(dir)
	path := filepath.Join(dir, "tether")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return path, os.Chmod(dir, 0o755)
})

// unprivileged is a user without any rights.
const unprivileged = 1234

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
}

// home makes a directory that belongs to a user.
func home(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "tether-home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A report is what `tether doctor --json` prints.
type doctorReport struct {
	Healthy bool
	Version string
	Checks  []doctor.Result
}

func (r doctorReport) find(t *testing.T, name string) doctor.Result {
	t.Helper()
	i := slices.IndexFunc(r.Checks, func(c doctor.Result) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check is called %q", name)
	}
	return r.Checks[i]
}

// examined runs a command that runs `tether doctor --json`.
func examined(t *testing.T, cmd *exec.Cmd, code int) doctorReport {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code || stderr.Len() > 0 {
		t.Errorf("ended with %v, want exit code %d: %s%s", cmd.ProcessState, code, stderr.String(), out.String())
	}
	var r doctorReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if r.Healthy != (code == 0) || r.Version == "" {
		t.Errorf("healthy %v, version %q", r.Healthy, r.Version)
	}
	return r
}

func doctorCommand(t *testing.T, home string, prefix ...string) *exec.Cmd {
	t.Helper()
	argv := append(prefix, released(t), "doctor", "--json")
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	return cmd
}

func TestDoctorPasses(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	for _, uid := range []int{os.Geteuid(), unprivileged} {
		t.Run(fmt.Sprint("as ", uid), func(t *testing.T) {
			cmd := doctorCommand(t, "")
			if uid != os.Geteuid() {
				needRoot(t)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
			}
			cmd.Env = append(cmd.Env, "HOME="+home(t, uid))
			r := examined(t, cmd, 0)
			if len(r.Checks) < 20 {
				t.Errorf("only %d checks", len(r.Checks))
			}
			for _, c := range r.Checks {
				if c.Status == doctor.Failed || c.Status == doctor.Skipped || c.Tries == "" || c.Detail == "" {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

// hidden is a command line prefix that hides bubblewrap from the command behind it.
func hidden(t *testing.T) []string {
	bwrap := needBubblewrap(t)
	return []string{bwrap, "--dev-bind", "/", "/", "--bind", "/dev/null", bwrap}
}

// Where bubblewrap is missing, that is noted, unless it was asked for.
func TestDoctorReportsMissingBubblewrap(t *testing.T) {
	t.Parallel()
	r := examined(t, doctorCommand(t, home(t, os.Geteuid()), hidden(t)...), 0)
	if c := r.find(t, "bubblewrap"); c.Status != doctor.Noted || !strings.Contains(c.Detail, "not installed") || c.Fix != "" {
		t.Errorf("%+v", c)
	}
	if c := r.find(t, "native sandbox"); c.Status != doctor.Passed || !strings.Contains(c.Detail, "is used") {
		t.Errorf("%+v", c)
	}
	cmd := doctorCommand(t, home(t, os.Geteuid()), hidden(t)...)
	cmd.Args = append(cmd.Args, "--sandbox-backend", "bwrap")
	r = examined(t, cmd, 1)
	c := r.find(t, "bubblewrap")
	if c.Status != doctor.Failed || !strings.Contains(c.Detail, "not installed") || !strings.Contains(c.Fix, "apt-get install bubblewrap") {
		t.Errorf("%+v", c)
	}
	for _, c := range r.Checks {
		if c.Name != "bubblewrap" && c.Status == doctor.Failed {
			t.Errorf("also red: %+v", c)
		}
	}
	if c := r.find(t, "writing outside"); c.Status != doctor.Skipped {
		t.Errorf("%+v", c)
	}
}

func TestDoctorReportsMissingUserNamespaces(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	needRoot(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := doctorCommand(t, home(t, unprivileged), self)
	cmd.Env = append(cmd.Env, beUnprivileged+"=1")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true}
	r := examined(t, cmd, 1)
	for _, name := range []string{"user namespaces", "a sandbox can be built"} {
		if c := r.find(t, name); c.Status != doctor.Failed || !strings.Contains(c.Fix, "sysctl user.max_user_namespaces") {
			t.Errorf("%+v", c)
		}
	}
	if c := r.find(t, "bubblewrap"); c.Status != doctor.Passed {
		t.Errorf("%+v", c)
	}
}

// beUnprivileged, if set, makes the test binary switch off user namespaces in the one
// that it is root of, and execute its arguments without rights.
const beUnprivileged = "TETHER_TEST_BE_UNPRIVILEGED"

func init() {
	if os.Getenv(beUnprivileged) == "" {
		return
	}
	os.Unsetenv(beUnprivileged)
	err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	if err == nil {
		err = errors.Join(syscall.Setgroups(nil), syscall.Setgid(unprivileged), syscall.Setuid(unprivileged))
	}
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestDoctorWithoutState(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := examined(t, doctorCommand(t, file), 1)
	if c := r.find(t, "state directory"); c.Status != doctor.Failed || !strings.Contains(c.Fix, "--state-dir") {
		t.Errorf("%+v", c)
	}
}

func TestDoctorTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := printTable(&out, []doctor.Result{
		{Name: "first", Tries: "to pass", Status: doctor.Passed, Detail: "fine"},
		{Name: "second one", Tries: "to fail", Status: doctor.Failed, Detail: "broken\ntwice", Fix: "Repair it."},
		{Name: "third", Tries: "to fail too", Status: doctor.Failed, Detail: "broken", Fix: "Repair it."},
		{Name: "fourth", Tries: "nothing", Status: doctor.Skipped, Detail: "not tried"},
		{Name: "fifth", Tries: "to note", Status: doctor.Noted, Detail: "other"},
	}); err != nil {
		t.Fatal(err)
	}
	const want = `✓ first       fine
✗ second one  broken
              twice
              tried: to fail
              to do: Repair it.
✗ third       broken
              tried: to fail too
- fourth      not tried
• fifth       other

2 of 5 checks failed, 1 could not be tried.
`
	if out.String() != want {
		t.Errorf("printed:\n%s", out.String())
	}
}
