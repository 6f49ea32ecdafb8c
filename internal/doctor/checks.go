package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/mountinfo"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
)

// The advice for a failed check depends on the part of the sandbox that
// failed.
const (
	fixMounts = "The mounts of the sandbox do not hold. Do not run commands of others on this machine; update bubblewrap and the kernel, and if that does not help, report it with the output of `tether doctor --json`."
	fixFilter = "The system call filter does not hold. Do not run commands of others on this machine; check that the kernel has CONFIG_SECCOMP_FILTER, and report it with the output of `tether doctor --json`."
	fixSpaces = "The sandbox does not have the namespaces that it should. Do not run commands of others on this machine; report it with the output of `tether doctor --json`."
	fixTether = "This is a bug in tether: report it with the output of `tether doctor --json`."
)

// checks are all checks, in the order in which they run.
var checks = []check{
	{"writing outside", "create a file in the workspace and one beside it", fixMounts, writeOutside},
	{"reading what is denied", "open a denied file", fixMounts, readDenied},
	{"moving what is denied", "rename a directory above a denied file", fixMounts, renameAncestor},
	{"mounts", "look for writable mounts, and for mounts that follow those of this machine", fixMounts, mounts},
	{"nested namespaces", "become root in a namespace inside and undo the mounts there", fixMounts, nested},
	{"control groups", "become root in a namespace inside and mount the control groups of this machine", fixFilter, controlGroups},
	{"kernel settings", "open /proc/sys/kernel/core_pattern for writing", "Run tether as a user other than root, and report it with the output of `tether doctor --json`.", kernelSettings},
	{"state of tether", "open a file in the state directory", "Name another directory with `--state-dir`, one that is no mount point, and report it with the output of `tether doctor --json`.", stateDir},
	{"protected names", "create .git in a workspace that has none", fixMounts, protectedNames},
	{"planted bubblewrap", "put a program called bwrap first on the command's PATH", fixTether, plantedBubblewrap},
	{"privileges", "look at capabilities, no_new_privs and the filter", fixFilter, privileges},
	{"tracing", "trace a process", fixFilter, filtered("ptrace-child")},
	{"network", "make an internet socket", fixFilter, filtered("socket", "inet", "stream")},
	{"managed network", "connect to a port of this machine from a network of its own", fixSpaces, managedNetwork},
	{"local sockets", "connect to a socket of this machine, with the network off", fixFilter, localSocket},
	{"asynchronous calls", "set up io_uring", fixFilter, filtered("io-uring-setup")},
	{"foreign system calls", "make a system call of another architecture", fixFilter, foreignCall},
	{"signals", "kill a process outside", fixSpaces, signalOutside},
	{"programs that do not start", "run a program that is missing, and one that is denied", fixTether, execErrors},
	{"terminal", "press Ctrl-C in a command that waits for it", "Commands that need a terminal will not work. Check that /dev/pts is mounted and /dev/ptmx can be opened; if so, report it with the output of `tether doctor --json`.", terminal},
	{"reported denials", "fail because of the sandbox, and for another reason", fixTether, reportedDenials},
}

func writeOutside(ctx context.Context, f *fixture) (string, error) {
	inside, outside := filepath.Join(f.work, "inside"), filepath.Join(f.outside, "outside")
	o, err := f.probe(ctx, "write-file", inside)
	if err != nil {
		return "", fmt.Errorf("the command could not be started: %w", err)
	}
	if o.Code != 0 {
		return "", fmt.Errorf("not even the workspace can be written: %s", o.Output)
	}
	if absent(inside) == nil {
		return "", errors.New("the file that was written in the workspace is not there")
	}
	detail, err := f.refused(ctx, []string{"write-file", outside}, "EROFS", "EACCES")
	return detail, errors.Join(err, absent(outside))
}

func readDenied(ctx context.Context, f *fixture) (string, error) {
	return f.refused(ctx, []string{"read-file", filepath.Join(f.denied, "key")}, "EACCES", "ENOENT")
}

func renameAncestor(ctx context.Context, f *fixture) (string, error) {
	return f.refused(ctx, []string{"rename", f.deep, filepath.Join(f.work, "elsewhere")}, "EBUSY")
}

// mounts reads the list of mounts in the sandbox: the root must be read-only, and
// a later mount on this machine must not appear.
func mounts(ctx context.Context, f *fixture) (string, error) {
	o, err := f.run(ctx, "cat", mountinfo.Own)
	if err != nil {
		return "", fmt.Errorf("the command could not be started: %w", err)
	}
	mounts, err := mountinfo.Parse(o.Output)
	if err != nil {
		return "", err
	}
	root := "" // its options
	for _, m := range mounts {
		if m.Point == "/" {
			root = m.Options
		}
		if field := m.Follows(); field != "" {
			return "", fmt.Errorf("a later mount on this machine appears at %s (%s)", m.Point, field)
		}
	}
	if first, _, _ := strings.Cut(root, ","); first != "ro" {
		return "", fmt.Errorf("/ is not read-only: %q", root)
	}
	return fmt.Sprintf("%d mounts, none follows this machine's, / is read-only", len(mounts)), nil
}

// nested undoes the mounts in a namespace of its own.
func nested(ctx context.Context, f *fixture) (string, error) {
	return f.contained(ctx, "nested", f.outside, f.denied)
}

func controlGroups(ctx context.Context, f *fixture) (string, error) {
	return f.contained(ctx, "nested-cgroup")
}

func kernelSettings(ctx context.Context, f *fixture) (string, error) {
	return f.refused(ctx, []string{"open-write", "/proc/sys/kernel/core_pattern"}, "EROFS", "EACCES", "EPERM")
}

func stateDir(ctx context.Context, f *fixture) (string, error) {
	name := ""
	err := filepath.WalkDir(f.config.StateDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			name = path
			return fs.SkipAll
		}
		return err
	})
	if err != nil || name == "" {
		return "", fmt.Errorf("there is nothing in %s to look for (%v)", f.config.StateDir, err)
	}
	return f.refused(ctx, []string{"read-file", name}, "EACCES", "ENOENT")
}

// protectedNames checks that protected names cannot be created, and that
// their placeholders are gone afterwards.
func protectedNames(ctx context.Context, f *fixture) (string, error) {
	name := filepath.Join(f.work, ".git")
	_, err := f.refused(ctx, []string{"mkdir", name}, "EEXIST", "EROFS", "EACCES", "EPERM")
	if err != nil {
		return "", errors.Join(err, absent(name))
	}
	detail, err := f.refused(ctx, []string{"write-file", filepath.Join(name, "config")}, "EROFS", "EACCES", "EPERM", "ENOTDIR")
	return detail + ", and the placeholder is gone", errors.Join(err, absent(name))
}

// plantedBubblewrap runs a command with a program called bwrap first on its
// PATH.
func plantedBubblewrap(ctx context.Context, f *fixture) (string, error) {
	outside := filepath.Join(f.outside, "unconfined")
	args := []string{"write-file", outside}
	o, err := f.config.Runner.Run(ctx, Command{
		Argv: reexec.Argv(f.config.Self, reexec.Probe, args...), Dir: f.work, Env: f.env(f.planted), Intent: f.intent,
	})
	if ran := absent(filepath.Join(f.outside, "planted-ran")); ran != nil {
		return "", errors.New("the planted program was run")
	}
	if err != nil {
		return "", fmt.Errorf("the command could not be started: %w", err)
	}
	_, err = judgeRefusal(o, args[0], []string{"EROFS", "EACCES"})
	return "not run, and the command is confined", errors.Join(err, absent(outside))
}

func privileges(ctx context.Context, f *fixture) (string, error) {
	o, err := f.run(ctx, "cat", "/proc/self/status")
	if err != nil {
		return "", fmt.Errorf("the command could not be started: %w", err)
	}
	facts := make(map[string]string)
	for line := range strings.Lines(o.Output) {
		name, value, _ := strings.Cut(line, ":")
		facts[name] = strings.TrimSpace(value)
	}
	for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		if value := facts[name]; value == "" || strings.Trim(value, "0") != "" {
			return "", fmt.Errorf("capabilities are left: %s is %s", name, value)
		}
	}
	if facts["NoNewPrivs"] != "1" {
		return "", errors.New("setuid programs can gain privileges (no_new_privs is not set)")
	}
	if facts["Seccomp"] != "2" {
		return "", errors.New("there is no system call filter")
	}
	return "no capabilities, no_new_privs, filtered", nil
}

// filtered returns a check of a probe that the filter must refuse.
func filtered(args ...string) func(context.Context, *fixture) (string, error) {
	return func(ctx context.Context, f *fixture) (string, error) {
		return f.refused(ctx, args, "EPERM", "ENOSYS")
	}
}

// managedNetwork listens on this machine; a command in a managed network must
// not be able to connect.
func managedNetwork(ctx context.Context, f *fixture) (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	args := []string{"connect-tcp", l.Addr().String()}
	o, err := f.config.Runner.Run(ctx, Command{
		Argv: reexec.Argv(f.config.Self, reexec.Probe, args...), Dir: f.work, Env: f.env(), Intent: f.intent, Managed: true,
	})
	if err != nil {
		return "", fmt.Errorf("the command could not be started: %w", err)
	}
	return judgeRefusal(o, args[0], []string{"ECONNREFUSED"})
}

func localSocket(ctx context.Context, f *fixture) (string, error) {
	if f.socket == "" {
		return "", fmt.Errorf("%w: the path of the temporary directory is too long for a socket", errNotHere)
	}
	return f.refused(ctx, []string{"connect-unix", f.socket}, "EPERM")
}

// exitSIGSYS is the exit code of a command that the filter has killed.
const exitSIGSYS = 128 + 31

func foreignCall(ctx context.Context, f *fixture) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w: %s has none to try", errNotHere, runtime.GOARCH)
	}
	o, err := f.probe(ctx, "int80", "getpid")
	switch {
	case err != nil:
		return "", fmt.Errorf("the command could not be started: %w", err)
	case o.Code == 0:
		return "", errors.New("it was possible")
	case o.Code == exitSIGSYS || strings.Contains(o.Output, "SIGSYS"):
		return "killed", nil
	case o.Code > 128 || strings.Contains(o.Output, "SIGSEGV"):
		return "", fmt.Errorf("%w: the kernel has no 32-bit calls", errNotHere)
	}
	return "", fmt.Errorf("exit code %d, %q", o.Code, o.Output)
}

// deathTime is how long a killed process may take to be reported as dead.
const deathTime = 5 * time.Second

// signalOutside checks whether the process is still alive, because its pid may
// belong to another process inside.
func signalOutside(ctx context.Context, f *fixture) (string, error) {
	o, err := f.probe(ctx, "kill", fmt.Sprint(f.victim.Pid()), "KILL")
	if err != nil {
		return "", fmt.Errorf("the command could not be started: %w", err)
	}
	if o.Code == 0 {
		timer := time.NewTimer(deathTime)
		defer timer.Stop()
		select {
		case <-f.victim.Done():
		case <-timer.C:
		}
	}
	if _, dead := f.victim.Exited(); dead {
		return "", errors.New("it was possible")
	}
	if o.Code == 0 {
		return "the pid belongs to another process inside", nil
	}
	return judgeRefusal(o, "kill", []string{"ESRCH", "EPERM"})
}

// execErrors makes sure that a program that cannot be executed is reported as a
// failed start, as without a sandbox, and not as a failed command.
func execErrors(ctx context.Context, f *fixture) (string, error) {
	for _, try := range []struct {
		program string
		errnos  []error
	}{
		{filepath.Join(f.outside, "missing"), []error{syscall.ENOENT}},
		{filepath.Join(f.denied, "tool"), []error{syscall.EACCES, syscall.ENOENT}},
	} {
		o, err := f.run(ctx, try.program)
		if err == nil {
			return "", fmt.Errorf("%s was started, exit code %d", filepath.Base(try.program), o.Code)
		}
		start, ok := errors.AsType[*proc.StartError](err)
		expected := false
		for _, errno := range try.errnos {
			expected = expected || ok && errors.Is(start.Err, errno)
		}
		if !expected {
			return "", fmt.Errorf("a program that cannot be executed is reported as: %w", err)
		}
	}
	return "reported as failed starts", nil
}

// trapped is the exit code of a command whose trap has run.
const trapped = 5

func terminal(ctx context.Context, f *fixture) (string, error) {
	outside := filepath.Join(f.outside, "terminal")
	// Short sleeps: a shell runs its trap after its command has ended, and a sleep
	// that is started just after the key does not get the signal.
	script := fmt.Sprintf("trap 'exit %d' INT; (: > '%s') 2>/dev/null; : > /dev/tty || exit 6; echo ready; while :; do sleep 0.1; done", trapped, outside)
	o, err := f.config.Runner.Run(ctx, Command{
		Argv: []string{"sh", "-c", script}, Dir: f.work, Env: f.env(), Intent: f.intent,
		TTY: true, Await: "ready", Keys: "\x03",
	})
	switch written := absent(outside); {
	case err != nil:
		return "", fmt.Errorf("the command could not be started: %w", err)
	case written != nil:
		return "", errors.New("a command on a terminal is not confined")
	case o.Code != trapped:
		return "", fmt.Errorf("the command did not get the signal: exit code %d, %q", o.Code, o.Output)
	}
	return "Ctrl-C reaches the command, /dev/tty works", nil
}

func reportedDenials(ctx context.Context, f *fixture) (string, error) {
	outside := filepath.Join(f.outside, "denial")
	o, err := f.run(ctx, "sh", "-c", ": > '"+outside+"'")
	if written := absent(outside); err != nil || written != nil || o.Code == 0 {
		return "", errors.Join(errors.New("the sandbox did not make the command fail"), err)
	}
	if !o.Denied {
		return "", fmt.Errorf("the failure is not reported as one of the sandbox: %q", o.Output)
	}
	if o, err = f.run(ctx, "sh", "-c", "echo boom; exit 3"); err != nil || o.Code != 3 {
		return "", errors.Join(fmt.Errorf("another command ended with %d: %q", o.Code, o.Output), err)
	}
	if o.Denied {
		return "", errors.New("another failure is reported as one of the sandbox")
	}
	return "only the first is reported as a denial", nil
}
