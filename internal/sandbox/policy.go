package sandbox

import (
	"path"

	"github.com/tetherexec/tether/wire"
)

// A Policy is an intent bound to this machine. It does not change, and using
// it needs no look at the machine.
type Policy struct {
	Network wire.NetworkAccess

	// Managed: the process has a network of its own, even if Network is open, and
	// reaches other hosts only through the proxies that serve it.
	Managed bool

	// FullRead and FullWrite mean that no rule narrows reading or writing.
	// With FullWrite, files are not confined at all.
	FullRead, FullWrite bool

	// Cwd is the directory where the process starts, without links; empty if
	// none was given.
	Cwd string

	rules        *rules
	unrestricted bool
	legacy       bool     // the old Landlock backend was asked for
	unixSockets  bool     // a managed process may use all unix sockets
	noProc       bool     // procfs cannot be mounted
	procReadOnly []string // read-only parts of a new /proc
	hasTmp       bool     // /tmp is a directory
	globs        []BookGlob
	globLinks    []followedLink // on the way to the directories of globs
	left         []string       // foreign links that no rule is about
	bare         bool           // no placeholders, see Process
	env          []Variable     // variables with another value inside
}

// Decide returns the access that a process has to a path, and the rule that
// decides it. The path must be absolute and without links, because rules are
// about real paths.
func (p *Policy) Decide(name string) (Access, Rule) {
	if p.unrestricted {
		return Write, Rule{Path: "/", Access: Write, Origin: Unrestricted}
	}
	if p.FullWrite {
		name = "/"
	}
	if r := p.rules.decide(path.Clean("/" + name)); r != nil {
		return r.Access, *r
	}
	return Deny, Rule{Path: "/"}
}

// A WritableRoot is a writable path with the narrower rules inside it.
type WritableRoot struct {
	Path      string
	CarveOuts []Rule // not writable, in the order of their paths
}

// WritableRoots returns the existing writable paths, outermost first.
func (p *Policy) WritableRoots() []WritableRoot {
	var roots []WritableRoot
	for _, at := range sortedPaths(p.rules.byPath) {
		r := p.rules.byPath[at]
		if r.Access != Write || !r.place.exists() || p.rules.decide(at) != r {
			continue
		}
		root := WritableRoot{Path: at}
		for _, under := range sortedPaths(p.rules.byPath) {
			if c := p.rules.byPath[under]; below(under, at) && c.Access != Write {
				root.CarveOuts = append(root.CarveOuts, *c)
			}
		}
		roots = append(roots, root)
	}
	return roots
}
