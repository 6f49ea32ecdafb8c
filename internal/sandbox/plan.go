package sandbox

import (
	"fmt"
	"io/fs"
	"strings"
)

// A Shape is how much a process is wrapped.
type Shape int

// The shapes.
const (
	ShapeOpen       Shape = iota // nothing to enforce
	ShapeFilter                  // a system call filter and no_new_privs, no namespaces
	ShapeNamespaces              // its own view of the machine
)

func (s Shape) String() string { return [...]string{"open", "filter", "namespaces"}[s] }

// A Filter is the set of system calls that are refused.
type Filter int

// The filters.
const (
	FilterNone       Filter = iota
	FilterOpen              // the network is open
	FilterRestricted        // no network
	FilterProxy             // a network of its own, served by proxies
	FilterProxyUnix         // as FilterProxy, and unix sockets
)

func (f Filter) String() string {
	return [...]string{"none", "open", "restricted", "proxy", "proxy-unix"}[f]
}

// Managed reports whether the process has a network of its own, served by
// proxies.
func (p *Plan) Managed() bool { return p.Filter == FilterProxy || p.Filter == FilterProxyUnix }

// Namespaces are the namespaces that a process gets for itself, beside a
// mount namespace.
type Namespaces struct{ User, PID, IPC, Net bool }

func (n Namespaces) String() string {
	var names []string
	for _, row := range []struct {
		set  bool
		name string
	}{{n.User, "user"}, {n.PID, "pid"}, {n.IPC, "ipc"}, {n.Net, "net"}} {
		if row.set {
			names = append(names, row.name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, " ")
}

// OpKind is the kind of an operation.
type OpKind int

// The operations. Binds are recursive and take the host's file at Path, not
// the result of earlier operations. A backend creates a mount point that is
// missing in a scratch or masked directory.
const (
	OpBindRO      OpKind = iota // Path as on the host, to read
	OpBindRW                    // Path as on the host, to write
	OpPin                       // like OpBindRW, but only to make a mount point, which cannot be renamed or removed
	OpScratch                   // an empty root that vanishes with the sandbox
	OpDir                       // a directory with Mode in a scratch or masked one
	OpSymlink                   // a link to Target in a scratch directory
	OpDev                       // a new /dev with the harmless devices
	OpProc                      // a new procfs
	OpFreeze                    // makes a part of the new procfs read-only
	OpMaskDir                   // an empty directory with Mode over a directory
	OpMaskFile                  // an empty read-only file with Mode over anything else
	OpSeal                      // makes the mask at Path read-only, but nothing mounted below
	OpCover                     // an empty device over a symbolic link, which is not followed
	OpPlaceholder               // an empty directory (Mode has fs.ModeDir) or file on the host, until the sandbox ends
)

var opNames = [...]string{"bind-ro", "bind-rw", "pin", "scratch", "dir", "symlink", "dev", "proc", "freeze",
	"mask-dir", "mask-file", "seal", "cover", "placeholder"}

func (k OpKind) String() string { return opNames[k] }

// Devices are the devices of the host that a new /dev contains.
var Devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// An Op is one operation.
type Op struct {
	Kind   OpKind
	Path   string
	Target string      // of a symlink
	Mode   fs.FileMode // where the kind says so
	Why    string      // the rule that causes it

	// Guard: Path exists on the host, in a directory that is writable inside, and
	// the rule depends on its existence. If it is a placeholder of another sandbox,
	// it must not disappear while this sandbox runs.
	Guard bool
}

func (o Op) String() string {
	s := o.Kind.String() + " " + quoted(o.Path)
	switch o.Kind {
	case OpDir, OpMaskDir, OpMaskFile:
		s += fmt.Sprintf(" %04o", UnixMode(o.Mode))
	case OpSymlink:
		s += " -> " + quoted(o.Target)
	case OpPlaceholder:
		if o.Mode.IsDir() {
			s += " dir"
		} else {
			s += " file"
		}
	}
	if o.Why != "" {
		s += "  # " + o.Why
	}
	return s
}

// UnixMode returns a mode in the numbers of chmod.
func UnixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	if m&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	return mode
}

// A Variable is a change of the environment.
type Variable struct{ Name, Value string }

// A Plan lists the operations of a backend, in their order. A backend that
// cannot do all of them must refuse.
type Plan struct {
	Shape      Shape
	Namespaces Namespaces
	Filter     Filter
	Cwd        string // without links; empty: as without a sandbox
	Env        []Variable
	Ops        []Op
}

// String returns the plan as text that does not change without need.
func (p *Plan) String() string { return p.text(true) }

// Effects returns the text without the rules that cause the operations: two plans that do the
// same have the same text, even if their rules have other names.
func (p *Plan) Effects() string { return p.text(false) }

func (p *Plan) text(rules bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "shape %v\nunshare %v\nfilter %v\n", p.Shape, p.Namespaces, p.Filter)
	if p.Cwd != "" {
		fmt.Fprintf(&b, "cwd %s\n", quoted(p.Cwd))
	}
	for _, v := range p.Env {
		fmt.Fprintf(&b, "env %s=%s\n", v.Name, quoted(v.Value))
	}
	for _, op := range p.Ops {
		if !rules {
			op.Why = ""
		}
		fmt.Fprintln(&b, op)
	}
	return b.String()
}

// An Effect is what a process finds at a path after a plan was carried out.
type Effect int

// The effects.
const (
	Hidden       Effect = iota // a mask, or nothing
	Private                    // something that exists only in this sandbox
	HostReadable               // the host's file, to read
	HostWritable               // the host's file, to write
)

func (e Effect) String() string {
	return [...]string{"hidden", "private", "host-readable", "host-writable"}[e]
}

// Effect evaluates the plan for an absolute path without links: the last
// operation that covers it counts.
func (p *Plan) Effect(name string) Effect {
	if p.Shape != ShapeNamespaces {
		return HostWritable
	}
	effect := Hidden
	for _, op := range p.Ops {
		if !within(name, op.Path) {
			continue
		}
		switch op.Kind {
		case OpBindRO:
			effect = HostReadable
		case OpBindRW, OpPin:
			effect = HostWritable
		case OpScratch, OpDev, OpProc, OpFreeze:
			effect = Private
		case OpMaskDir, OpMaskFile, OpCover:
			effect = Hidden
		case OpSymlink, OpDir, OpSeal, OpPlaceholder:
		}
	}
	return effect
}
