// Package bwrap is the bubblewrap backend: it finds the program (find*.go),
// and writes a [sandbox.Plan] as its command line (bwrap.go). An operation
// that bubblewrap cannot do is an error.
package bwrap

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tetherexec/tether/internal/sandbox"
)

// A Layout holds the inputs of a command line beside the plan.
type Layout struct {
	Filter      int    // descriptor of the system call filter
	HiddenFile  string // an empty file without permissions
	EmptyFile   string // an empty file to read
	NoUserSpace bool   // user namespaces do not work here; only for root

	// Sources are descriptors to bind instead of paths, where there is one:
	// bubblewrap checks that it has bound the same file.
	Sources map[string]int

	// Capabilities, if not empty, are kept for the stage, which then freezes
	// and seals by itself. If empty, bubblewrap does it.
	Capabilities []string
}

// Arguments returns the arguments that make bubblewrap carry out a plan, without
// the command. Placeholders must exist already.
func Arguments(plan *sandbox.Plan, l Layout) ([]string, error) {
	if plan.Shape != sandbox.ShapeNamespaces {
		return nil, fmt.Errorf("a plan of shape %v is not for bubblewrap", plan.Shape)
	}
	args := []string{"--die-with-parent", "--cap-drop", "ALL", "--seccomp", strconv.Itoa(l.Filter)}
	for _, name := range l.Capabilities {
		args = append(args, "--cap-add", name)
	}
	ns := plan.Namespaces
	for _, row := range []struct {
		set  bool
		flag string
	}{{ns.User && !l.NoUserSpace, "--unshare-user"}, {ns.PID, "--unshare-pid"}, {ns.IPC, "--unshare-ipc"}, {ns.Net, "--unshare-net"}} {
		if row.set {
			args = append(args, row.flag)
		}
	}
	for _, op := range plan.Ops {
		more, err := l.operation(op)
		if err != nil {
			return nil, err
		}
		args = append(args, more...)
	}
	if len(args) > maxArguments {
		return nil, fmt.Errorf("the sandbox needs %d arguments of bubblewrap, which takes %d: use fewer entries, or directories instead of patterns", len(args), maxArguments)
	}
	return args, nil
}

// maxArguments is how many arguments bubblewrap accepts, including those of
// the command.
const maxArguments = 9000 - 50

func (l Layout) bind(option, path string) []string {
	if fd, ok := l.Sources[path]; ok {
		return []string{option + "-fd", strconv.Itoa(fd), path}
	}
	return []string{option, path, path}
}

// covered are the paths that --proc freezes by itself if they are writable. A
// mount costs a fifth of a millisecond; the stage verifies that they are
// read-only.
var covered = []string{"/proc/irq", "/proc/bus", "/proc/sysrq-trigger"}

func (l Layout) operation(op sandbox.Op) ([]string, error) {
	mode := fmt.Sprintf("%04o", sandbox.UnixMode(op.Mode))
	switch op.Kind {
	case sandbox.OpFreeze:
		if l.Capabilities != nil || slices.Contains(covered, op.Path) {
			return nil, nil
		}
		return []string{"--ro-bind", op.Path, op.Path}, nil
	case sandbox.OpBindRO:
		return l.bind("--ro-bind", op.Path), nil
	case sandbox.OpBindRW, sandbox.OpPin:
		return l.bind("--bind", op.Path), nil
	case sandbox.OpScratch:
		if op.Path == "/" {
			return nil, nil // bubblewrap starts with one
		}
	case sandbox.OpDir:
		return []string{"--perms", mode, "--dir", op.Path}, nil
	case sandbox.OpSymlink:
		return []string{"--symlink", op.Target, op.Path}, nil
	case sandbox.OpDev:
		return []string{"--dev", op.Path}, nil
	case sandbox.OpProc:
		return []string{"--proc", op.Path}, nil
	case sandbox.OpMaskDir:
		return []string{"--perms", mode, "--tmpfs", op.Path}, nil
	case sandbox.OpMaskFile:
		if sandbox.UnixMode(op.Mode) == 0 {
			return []string{"--ro-bind", l.HiddenFile, op.Path}, nil
		}
		return []string{"--ro-bind", l.EmptyFile, op.Path}, nil
	case sandbox.OpSeal:
		if l.Capabilities != nil {
			return nil, nil
		}
		return []string{"--remount-ro", op.Path}, nil
	case sandbox.OpCover:
		if l.Capabilities != nil { // the stage inside does it
			return nil, nil
		}
	case sandbox.OpPlaceholder:
		return nil, nil
	}
	return nil, fmt.Errorf("bubblewrap cannot do %v", op)
}
