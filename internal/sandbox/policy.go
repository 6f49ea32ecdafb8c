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

// A Root is a readable or writable path with the narrower rules inside it.
type Root struct {
	Path      string
	CarveOuts []Rule // not readable or not writable, in the order of their paths
}

// WritableRoots returns the existing writable paths, outermost first.
func (p *Policy) WritableRoots() []Root {
	return p.roots(Write, func(*Rule) bool { return true })
}

// ReadableRoots returns the existing readable paths that are not below another one, outermost first.
func (p *Policy) ReadableRoots() []Root {
	return p.roots(Read, func(r *Rule) bool { return r.Path == "/" || p.rules.access(path.Dir(r.Path)) == Deny })
}

// roots returns the existing paths with at least the given access, outermost first.
func (p *Policy) roots(least Access, wanted func(*Rule) bool) []Root {
	var roots []Root
	paths := sortedPaths(p.rules.byPath)
	for _, at := range paths {
		r := p.rules.byPath[at]
		if r.Access < least || !r.place.exists() || p.rules.decide(at) != r || !wanted(r) {
			continue
		}
		root := Root{Path: at}
		for _, under := range paths {
			if c := p.rules.byPath[under]; below(under, at) && c.Access < least {
				root.CarveOuts = append(root.CarveOuts, *c)
			}
		}
		roots = append(roots, root)
	}
	return roots
}

// Len is how many rules the policy has.
func (p *Policy) Len() int { return len(p.rules.byPath) }
