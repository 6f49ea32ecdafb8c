package sandbox

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// maxOps is how many operations a plan may have; kernels allow a namespace
// 100,000 mounts by default.
const maxOps = 50_000

// Modes of masks.
const (
	modeHidden    fs.FileMode = 0
	modeTraversed fs.FileMode = 0o111 // something below is open
	modeEmptyDir  fs.FileMode = 0o555
	modeEmptyFile fs.FileMode = 0o444
)

// privateDevices are the names of a new /dev that a rule may hide.
var privateDevices = []string{"/dev", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
	"/dev/tty", "/dev/pts", "/dev/ptmx", "/dev/shm", "/dev/console"}

// Compile turns the policy into a plan.
func (p *Policy) Compile() (*Plan, error) {
	plan := &Plan{}
	restricted := p.Network == wire.NetworkRestricted
	if p.FullWrite && !p.Managed {
		if restricted {
			plan.Shape, plan.Filter = ShapeFilter, FilterRestricted
		}
		return plan, nil
	}
	if p.legacy && !p.Managed {
		return nil, Unenforceable("filesystem-restricted execution requires bubblewrap to isolate app-server sockets")
	}
	if p.Cwd != "" {
		plan.Cwd, plan.Env = p.Cwd, []Variable{{"PWD", p.Cwd}}
	}
	plan.Env = append(plan.Env, p.env...)
	plan.Shape, plan.Filter = ShapeNamespaces, FilterOpen
	switch {
	case p.Managed && p.unixSockets:
		plan.Filter = FilterProxyUnix
	case p.Managed:
		plan.Filter = FilterProxy
	case restricted:
		plan.Filter = FilterRestricted
	}
	plan.Namespaces = Namespaces{User: true, PID: true, IPC: true, Net: restricted || p.Managed}
	c := &compiler{policy: p, live: make(map[string]*Rule), points: make(map[string]*point), stepped: make(map[string]bool)}
	if err := c.collect(); err != nil {
		return nil, err
	}
	c.pin()
	c.emit()
	if len(c.ops) > maxOps {
		return nil, Unenforceable("the sandbox needs more than %d operations", maxOps)
	}
	plan.Ops = c.ops
	if p.Cwd != "" && !c.reaches(p.Cwd) {
		return nil, Unenforceable("the command's cwd %s is hidden by the sandbox", p.Cwd)
	}
	return plan, nil
}

// A view is how a process sees a path, as far as the plan decides it.
type view int

const (
	viewScratch view = iota // an empty root
	viewPrivate             // a /dev or /proc of its own
	viewMasked
	viewRead
	viewWrite
)

// A point is a path where the plan has operations.
type point struct {
	ops     []Op
	writes  bool // the path is writable afterwards
	maskDir bool
}

type compiler struct {
	policy  *Policy
	live    map[string]*Rule // rules that the plan enforces with a mount
	points  map[string]*point
	stepped map[string]bool // directories made in masked ones
	ops     []Op
}

// view returns how the live rules make a process see a path.
func (c *compiler) view(name string) view {
	for at := name; ; at = path.Dir(at) {
		r := c.live[at]
		switch {
		case r == nil && (at == "/dev" || at == "/proc"):
			return viewPrivate
		case r == nil && at == "/":
			return viewScratch
		case r == nil:
		case r.Access == Write:
			return viewWrite
		case r.Access == Read:
			return viewRead
		case c.outside(at) == viewScratch:
			return viewScratch // there is nothing to mask
		default:
			return viewMasked
		}
	}
}

// outside returns the view around a path before the plan does anything there.
func (c *compiler) outside(at string) view {
	switch at {
	case "/":
		return viewScratch
	case "/dev", "/proc":
		return viewPrivate
	}
	return c.view(path.Dir(at))
}

// collect turns the rules into points, outer ones first.
func (c *compiler) collect() error {
	all := c.policy.rules
	for _, at := range sortedPaths(all.byPath) {
		r := all.byPath[at]
		if all.decide(at) != r {
			continue // below something private
		}
		if !r.place.exists() {
			continue
		}
		ok, err := c.counts(at, r)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		outer := c.outside(at)
		c.live[at] = r
		if at != "/" {
			c.change(at, r, outer)
		}
	}
	for _, at := range sortedPaths(all.byPath) {
		if r := all.byPath[at]; !r.place.exists() && r.Access != Write && all.decide(at) == r {
			if err := c.fill(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// counts reports whether a rule about an existing path needs a mount of the
// host's file. In /dev and /proc a process gets new ones instead.
func (c *compiler) counts(at string, r *Rule) (bool, error) {
	switch {
	case at == "/proc":
		return r.Access == Deny, nil
	case within(at, "/proc"):
		if r.Access == Deny && c.view("/proc") != viewMasked {
			return false, Unenforceable("a path below /proc cannot be denied: %s", r.literal)
		}
		return false, nil
	case !within(at, "/dev"):
		return true, nil
	}
	inside := c.givenDevices(at)
	switch r.Access {
	case Deny:
		return inside || slices.Contains(privateDevices, at), nil
	case Write:
		return at != "/dev" && (r.place.mode.IsDir() || r.place.mode.IsRegular()), nil
	}
	return inside, nil
}

// givenDevices reports whether a path lies in a directory of /dev that the host
// shares for writing.
func (c *compiler) givenDevices(at string) bool {
	for dir := path.Dir(at); below(dir, "/dev"); dir = path.Dir(dir) {
		if r := c.live[dir]; r != nil && r.Access == Write {
			return true
		}
	}
	return false
}

// change makes a point where a rule differs from the view around it.
func (c *compiler) change(at string, r *Rule, outer view) {
	why, guard := r.String(), outer == viewWrite
	switch r.Access {
	case Write:
		if outer != viewWrite {
			c.points[at] = &point{ops: []Op{{Kind: OpBindRW, Path: at, Why: why}}, writes: true}
		}
	case Read:
		switch {
		case r.place.mode&fs.ModeSymlink != 0: // see binder.foreignLink
			if outer == viewWrite {
				c.points[at] = &point{ops: []Op{{Kind: OpCover, Path: at, Why: why}}}
			}
		case outer != viewRead:
			c.points[at] = &point{ops: []Op{{Kind: OpBindRO, Path: at, Why: why, Guard: guard}}}
		}
	case Deny:
		if outer == viewScratch || outer == viewMasked {
			return
		}
		mask := Op{Kind: OpMaskFile, Path: at, Mode: modeHidden, Why: why, Guard: guard}
		if r.place.mode.IsDir() {
			mask.Kind = OpMaskDir
		}
		c.points[at] = &point{ops: []Op{mask}, maskDir: r.place.mode.IsDir()}
	}
}

// fill prevents the creation of a missing name, if the command could create
// it: a rule about it would come too late.
func (c *compiler) fill(r *Rule) error {
	at := r.place.gapAt
	if within(at, "/proc") || at == "" || c.view(at) != viewWrite || c.points[at] != nil && !c.points[at].writes {
		return nil
	}
	why := r.String()
	switch r.place.gap {
	case gapFile:
		if c.points[at] == nil {
			c.points[at] = &point{ops: []Op{{Kind: OpPin, Path: at, Why: why, Guard: true}}, writes: true}
		}
	case gapMissing:
		if !r.creatable || c.policy.bare {
			return nil
		}
		if r.emptyDir && at == r.Path {
			c.points[at] = &point{maskDir: true, ops: []Op{
				{Kind: OpPlaceholder, Path: at, Mode: fs.ModeDir, Why: why},
				{Kind: OpMaskDir, Path: at, Mode: modeEmptyDir, Why: why}}}
			return nil
		}
		c.points[at] = &point{ops: []Op{
			{Kind: OpPlaceholder, Path: at, Why: why},
			{Kind: OpMaskFile, Path: at, Mode: modeEmptyFile, Why: why}}}
	default:
		return Unenforceable("cannot look at %s to restrict %s", at, r.literal)
	}
	return nil
}

// pin makes mount points of all directories between a writable root and a
// restriction inside it. A mount point cannot be renamed, so none of them can
// be moved away from the rule.
func (c *compiler) pin() {
	for _, at := range sortedPaths(c.points) {
		pinned := c.points[at].writes && c.points[at].ops[0].Kind == OpPin
		if c.points[at].writes && !pinned {
			continue
		}
		for dir := path.Dir(at); dir != "/" && c.view(dir) == viewWrite; dir = path.Dir(dir) {
			if c.points[dir] == nil {
				c.points[dir] = &point{ops: []Op{{Kind: OpPin, Path: dir, Guard: true}}, writes: true}
			}
		}
	}
}

// emit writes the operations: first the base of every sandbox, then the
// points, each before the points below it.
func (c *compiler) emit() {
	c.base()
	c.aliases()
	paths := sortedPaths(c.points)
	var open []string // masks that are not sealed yet
	closeTo := func(at string) {
		for n := len(open); n > 0 && !within(at, open[n-1]); n-- {
			c.ops = append(c.ops, Op{Kind: OpSeal, Path: open[n-1]})
			open = open[:n-1]
		}
	}
	for i, at := range paths {
		closeTo(at)
		pt := c.points[at]
		if n := len(open); n > 0 {
			c.steps(open[n-1], at)
		}
		if pt.maskDir {
			mask := &pt.ops[len(pt.ops)-1]
			if i+1 < len(paths) && below(paths[i+1], at) && mask.Mode == modeHidden {
				mask.Mode = modeTraversed
			}
			open = append(open, at)
		}
		c.ops = append(c.ops, pt.ops...)
	}
	closeTo("")
}

// steps makes the directories between a mask and a point below it.
func (c *compiler) steps(mask, at string) {
	var dirs []string
	for dir := path.Dir(at); below(dir, mask); dir = path.Dir(dir) {
		if c.points[dir] != nil {
			break
		}
		dirs = append(dirs, dir)
	}
	for _, dir := range slices.Backward(dirs) {
		if !c.stepped[dir] {
			c.stepped[dir] = true
			c.op(Op{Kind: OpDir, Path: dir, Mode: modeTraversed})
		}
	}
}

// base makes the root and the mounts that every sandbox has.
func (c *compiler) base() {
	root := c.policy.rules.byPath["/"]
	view := c.view("/")
	switch view {
	case viewRead:
		c.op(Op{Kind: OpBindRO, Path: "/", Why: root.String()})
	case viewWrite:
		c.op(Op{Kind: OpBindRW, Path: "/", Why: root.String()})
	default:
		c.op(Op{Kind: OpScratch, Path: "/"})
	}
	c.op(Op{Kind: OpDev, Path: "/dev"})
	if c.policy.noProc {
		if view != viewRead {
			c.op(Op{Kind: OpBindRO, Path: "/proc"})
		}
	} else {
		c.op(Op{Kind: OpProc, Path: "/proc"})
		for _, p := range c.policy.procReadOnly {
			c.op(Op{Kind: OpFreeze, Path: p})
		}
	}
	tmp := c.policy.rules.byPath["/tmp"]
	if c.policy.hasTmp && c.view("/tmp") == viewScratch && (tmp == nil || tmp.Access != Deny) {
		c.op(Op{Kind: OpDir, Path: "/tmp", Mode: 0o777 | fs.ModeSticky})
	}
}

func (c *compiler) op(o Op) { c.ops = append(c.ops, o) }

// aliases recreates the symbolic links that lead to readable paths, where the
// sandbox would otherwise be empty. A link gives no access that its target
// does not give.
func (c *compiler) aliases() {
	made := make(map[string]followedLink)
	for _, r := range c.policy.rules.all {
		if r.Access != Read || !r.place.exists() || c.policy.rules.access(r.Path) == Deny {
			continue
		}
		for _, l := range r.place.links {
			if c.view(l.at) == viewScratch {
				made[l.at] = l
			}
		}
	}
	for _, at := range sortedPaths(made) {
		c.op(Op{Kind: OpSymlink, Path: at, Target: made[at].target})
	}
}

// reaches reports whether a process inside the sandbox can enter a directory.
func (c *compiler) reaches(dir string) bool {
	switch c.view(dir) {
	case viewRead, viewWrite, viewPrivate:
		return true
	}
	if dir == "/" {
		return true
	}
	return slices.ContainsFunc(c.ops, func(o Op) bool {
		return o.Kind == OpDir && o.Path == dir || (o.Kind == OpBindRO || o.Kind == OpBindRW) && below(o.Path, dir)
	})
}

// sortedPaths returns the keys of a map, each path before those below it.
func sortedPaths[V any](m map[string]V) []string {
	paths := make([]string, 0, len(m))
	for p := range m {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, comparePaths)
	return paths
}

// comparePaths orders by components.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		if a[i] == '/' {
			return -1
		}
		if b[i] == '/' {
			return 1
		}
		return strings.Compare(a[i:], b[i:])
	}
	return len(a) - len(b)
}
