package conformance

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

var (
	tetherFlag    = flag.String("tether", "", "path of tether, which all users can execute; empty: build it")
	probeFlag     = flag.String("probe", "", "path of the test program of internal/sandbox/probe, which all users can execute; empty: build it")
	serverFlag    = flag.String("server", "", "command line of the server to test, which speaks on its standard input and output; empty: tether serve, built from here, with a listener and a keeper")
	flagsFlag     = flag.String("flags", "", "more flags for the server, such as those that choose a backend")
	backendFlag   = flag.String("backend", "", "the only backend of tether to test: native or bwrap; empty: all rows on both, attacks on native, and with SOAK=1 on both")
	referenceFlag = flag.Bool("reference", false, "the server is the reference: leave out rows in which it differs")
)

// suite has what all tests share.
var suite struct {
	dir      string // all users may enter it; not below /tmp, which policies open
	tether   string // the server
	probe    string // the test program of internal/sandbox/probe, which has the attacks
	server   Server
	accounts []*account // of the backend that is tested in full
	others   []*account // of the other backend
}

// ordinaryUser is the user that is not root. It need not be in the user database.
const ordinaryUser = 1234

// inCI reports whether a test that cannot run must fail.
func inCI() bool { return os.Getenv("CI") == "true" }

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir := os.Getenv(ownTmpVariable)
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("/var/tmp", "conformance-"); err != nil {
			return 0, err
		}
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	suite.dir, suite.tether, suite.probe = dir, *tetherFlag, *probeFlag
	if err := findPrograms(); err != nil {
		return 0, err
	}
	if err := buildPrograms(); err != nil {
		return 0, err
	}
	suite.server = Server{Argv: []string{suite.tether, "serve", "--keeper", "--log-level", "warn"}, Listens: true}
	if *serverFlag != "" {
		suite.server = Server{Argv: strings.Fields(*serverFlag), Reference: *referenceFlag}
	}
	suite.server.Argv = append(suite.server.Argv, strings.Fields(*flagsFlag)...)
	if err := openAccounts(); err != nil {
		return 0, err
	}
	if err := openPeer(); err != nil {
		return 0, err
	}
	code := m.Run()
	closeServers()
	closePeer()
	if err := goleak.Find(); err != nil && code == 0 {
		return 1, err
	}
	return code, nil
}

// buildPrograms builds the programs that no flag names: the probe, tether and the program behind `tether mcp`. If it
// has built tether, it then executes this program again in a /tmp of its own, where that is possible.
func buildPrograms() error {
	again := os.Getenv(ownTmpVariable) != "" // all programs are there
	if suite.probe == "" {
		suite.probe = filepath.Join(suite.dir, "bin", "probe")
		if !again {
			if err := build(suite.probe, "internal/sandbox/probe", "test", "-c"); err != nil {
				return err
			}
		}
	}
	if suite.tether != "" {
		return nil
	}
	suite.tether = filepath.Join(suite.dir, "bin", "tether")
	if again {
		return nil
	}
	for program, tags := range map[string]string{suite.tether: "", suite.tether + "-mcp": "mcp"} {
		if err := build(program, "cmd/tether", "build", "-tags", tags); err != nil {
			return err
		}
	}
	here, err := os.Getwd()
	if err != nil || os.Geteuid() != 0 || *serverFlag != "" || strings.HasPrefix(here, "/tmp/") {
		return err
	}
	return enterOwnTmp()
}

// build makes a program of a package with the go command.
func build(program, of string, command ...string) error {
	cmd := exec.Command("go", append(command, "-ldflags=-s -w", "-o", program, "github.com/tetherexec/tether/"+of)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", filepath.Base(program), err, out)
	}
	return nil
}

// ownTmpVariable names the directory of the tests, in a process that has a /tmp of its own.
const ownTmpVariable = "CONFORMANCE_OWN_TMP"

// enterOwnTmp executes this program again where /tmp is its own. Sandboxes that open /tmp
// hold names there, which are the same for all tests of this machine that run meanwhile.
func enterOwnTmp() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil // not in every container
	}
	image, err := os.Open(self)
	if err != nil {
		return err
	}
	home, err := os.Open(filepath.Dir(self)) // where this is built, results are expected
	if err != nil {
		return err
	}
	name := func(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("none", "/tmp", "tmpfs", 0, "mode=1777"); err != nil {
		return fmt.Errorf("mount a /tmp: %w", err)
	}
	if err := os.MkdirAll(os.TempDir(), 0o777); err != nil {
		return err
	}
	if strings.HasPrefix(home.Name(), "/tmp/") {
		if err := os.MkdirAll(home.Name(), 0o755); err != nil {
			return err
		}
		if err := unix.Mount(name(home), home.Name(), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keep %s: %w", home.Name(), err)
		}
	}
	if err := os.Setenv(ownTmpVariable, suite.dir); err != nil {
		return err
	}
	return fmt.Errorf("begin again: %w", unix.Exec(name(image), os.Args, os.Environ()))
}

// findPrograms reports a program that must be installed to run the table.
func findPrograms() error {
	for _, name := range []string{"bwrap", "bash", "git", "curl", "setsid", "setpriv"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("the table needs a program that is not installed: %w", err)
		}
	}
	return nil
}

// openAccounts finds the users as which servers can run.
func openAccounts() error {
	backends := []string{"native", "bwrap"}
	switch {
	case *serverFlag != "" || strings.Contains(*flagsFlag, "--sandbox-backend"):
		backends = []string{""}
	case *backendFlag != "":
		backends = []string{*backendFlag}
	}
	suite.accounts = accountsOf(backends[0], "")
	if len(backends) > 1 {
		suite.others = accountsOf(backends[1], "-"+backends[1])
	}
	for _, a := range slices.Concat(suite.accounts, suite.others) {
		a.dir = filepath.Join(suite.dir, a.name)
		for _, dir := range []string{a.dir, a.home(), filepath.Join(a.dir, "state")} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			if err := os.Lchown(dir, a.uid, a.gid); err != nil {
				return err
			}
		}
	}
	return nil
}

// accountsOf returns the users, with servers that use a backend.
func accountsOf(backend, suffix string) []*account {
	if os.Geteuid() != 0 {
		return []*account{{name: "self" + suffix, backend: backend, uid: os.Geteuid(), gid: os.Getegid()}}
	}
	return []*account{{name: "root" + suffix, backend: backend}, {name: "user" + suffix, backend: backend, uid: ordinaryUser, gid: ordinaryUser}}
}

// Only the test program of internal/sandbox/probe has the attacks: tether does not offer them.
func TestTetherHasNoAttacks(t *testing.T) {
	for program, want := range map[string]int{suite.tether: 2, suite.probe: 0} {
		cmd := exec.Command(program, "be-child", "probe", "status")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
			t.Errorf("%s: %v, want exit code %d: %s", cmd, err, want, out)
		}
	}
}

// TestAccounts reports why only a part of the table runs.
func TestAccounts(t *testing.T) {
	if os.Geteuid() == 0 {
		return
	}
	const reason = "not started as root: the table ran as this user only"
	if inCI() {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
