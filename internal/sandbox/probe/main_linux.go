package probe

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/reexec"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// A probe is one attempt.
type probe struct {
	name  string
	usage string // its arguments: "A B", "[A]", "A…"
	run   func(args []string) error
}

// probes is the table of all probes. The program of the tests adds its attacks.
var probes = slices.Concat(
	[]probe{{"ok", "", func([]string) error { return errQuiet }}},
	fileProbes, networkProbes, nestedProbes, processProbes, abiProbes,
)

// Results that are not errors of the kernel.
var (
	errQuiet   = errors.New("succeeded, nothing to print") // success without "ok"
	errPrinted = errors.New("failed, and printed why")     // the probe printed its own text
	errUsage   = errors.New("bad arguments")
)

// A failure is the failure of a call that a probe makes before its own.
type failure struct {
	call string
	err  error
}

func (f *failure) Error() string { return f.call + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// at names the call that err came from, if it is an error.
func at(call string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{call, err}
}

// errnoOr turns the errno of a raw call into an error; 0 is nil.
func errnoOr(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func init() { reexec.Register(reexec.Probe, runHelper) }

// runHelper runs the probe args[0] and returns its exit status.
func runHelper(args []string) int {
	runtime.LockOSThread() // namespaces, keyrings and tracing belong to threads
	defer runtime.UnlockOSThread()
	if len(args) == 0 {
		fmt.Fprintf(os.Stderr, "usage: probe NAME ARGS…, NAME is one of\n  %s\n", strings.Join(names(), "\n  "))
		return exitUsage
	}
	i := slices.IndexFunc(probes, func(p probe) bool { return p.name == args[0] })
	if i < 0 {
		fmt.Fprintf(os.Stderr, "no probe is called %q\n", args[0])
		return exitUsage
	}
	p := probes[i]
	if !accepts(p.usage, len(args)-1) {
		return p.refuse()
	}
	switch err := p.run(args[1:]); {
	case err == nil:
		fmt.Println("ok")
		return exitOK
	case errors.Is(err, errQuiet):
		return exitOK
	case errors.Is(err, errPrinted):
		return exitFailed
	case errors.Is(err, errUsage):
		return p.refuse()
	default:
		fmt.Println(p.describe(err))
		return exitFailed
	}
}

func (p probe) refuse() int {
	fmt.Fprintln(os.Stderr, strings.TrimRight("usage: probe "+p.name+" "+p.usage, " "))
	return exitUsage
}

// describe returns the line for a failed probe: see the package comment.
func (p probe) describe(err error) string {
	line := p.name + ": " + outcome(err)
	if f, ok := errors.AsType[*failure](err); ok {
		line += " " + f.call
	}
	return line
}

// outcome returns "ok", the name of an errno, or the name of the signal that
// killed a child.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if sig, ok := errors.AsType[killedError](err); ok {
		return unix.SignalName(unix.Signal(sig))
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
		return fmt.Sprintf("E%d", int(errno))
	}
	return err.Error()
}

// accepts reports whether a usage text allows n arguments.
func accepts(usage string, n int) bool {
	fields := strings.Fields(usage)
	least, most := 0, len(fields)
	for _, f := range fields {
		if !strings.HasPrefix(f, "[") {
			least++
		}
		if strings.HasSuffix(f, "…") {
			most = n
		}
	}
	return n >= least && n <= max(most, least)
}

// names lists the probes, sorted.
func names() []string {
	names := make([]string, 0, len(probes))
	for _, p := range probes {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}
