package sandbox

import (
	"path"
	"strings"
)

// A Rulebook holds the rules of a policy and its plan in a form that can be sent
// to another process and applied there, without looking at the machine.
type Rulebook struct {
	Rules []BookRule
	Globs []BookGlob
	Ops   []Op // only Kind and Path are used
}

// A BookRule is the winning rule for a path.
type BookRule struct {
	Path    string
	Access  Access
	Private bool // nothing below is open to other rules

	// Absent is the first component that did not exist when the policy was bound;
	// empty if all existed. A rule other than Write prevents its creation.
	Absent string
}

// A BookGlob denies names that match, also names that are created later.
type BookGlob struct {
	Dir     string // without links
	Pattern string // below Dir
	Depth   uint64 // how many levels below Dir count; 0: all
}

// Rulebook returns the rules of the policy together with the operations of the
// plan that was compiled from it.
func (p *Policy) Rulebook(plan *Plan) Rulebook {
	book := Rulebook{Globs: p.globs}
	for _, at := range sortedPaths(p.rules.byPath) {
		r := p.rules.byPath[at]
		rule := BookRule{Path: at, Access: r.Access, Private: r.Origin == FromPrivate}
		if r.place.gap == gapMissing {
			rule.Absent = r.place.gapAt
		}
		book.Rules = append(book.Rules, rule)
	}
	for _, op := range plan.Ops {
		book.Ops = append(book.Ops, Op{Kind: op.Kind, Path: op.Path})
	}
	return book
}

// A Watch is a path on which a policy and the mounts made for it depend.
type Watch struct {
	Path    string
	Absent  bool // it did not exist when the policy was bound
	Content bool // the content of the file matters too
}

// Watched returns the paths whose change makes a policy outdated: the paths with a
// rule, the first missing component on the way to one, and the links on the way. The
// matches of a glob are not among them, because a rulebook applies globs to names as
// they are.
func (p *Policy) Watched() []Watch {
	var watched []Watch
	seen := make(map[string]int) // where in watched
	add := func(w Watch) {
		at, ok := seen[w.Path]
		switch {
		case w.Path == "":
		case ok: // keep the stronger interest
			watched[at].Content = watched[at].Content || w.Content
		default:
			seen[w.Path] = len(watched)
			watched = append(watched, w)
		}
	}
	for _, l := range p.globLinks {
		add(Watch{Path: l.at, Content: true})
	}
	for _, at := range p.left {
		add(Watch{Path: at, Content: true})
	}
	for _, r := range p.rules.all {
		for _, l := range r.place.links {
			add(Watch{Path: l.at, Content: true})
		}
		switch {
		case r.Origin == FromGlob:
		case r.place.exists():
			add(Watch{Path: r.Path, Content: r.Origin == FromProtected && r.place.mode.IsRegular()})
		default:
			add(Watch{Path: r.place.gapAt, Absent: r.place.gap == gapMissing})
		}
	}
	for _, g := range p.globs {
		add(Watch{Path: g.Dir})
	}
	return watched
}

// A Judge applies a Rulebook.
type Judge struct {
	rules  map[string]BookRule
	absent map[string]bool
	globs  []judgedGlob
	plan   Plan
}

type judgedGlob struct {
	BookGlob
	patterns Glob
}

// Judge returns a Judge that applies the book. The only error is a pattern with
// too many alternatives, which Bind refuses.
func (b Rulebook) Judge() (*Judge, error) {
	j := &Judge{rules: make(map[string]BookRule), absent: make(map[string]bool), plan: Plan{Shape: ShapeNamespaces, Ops: b.Ops}}
	for _, r := range b.Rules {
		j.rules[r.Path] = r
		if r.Absent != "" && r.Access != Write {
			j.absent[r.Absent] = true
		}
	}
	for _, g := range b.Globs {
		patterns, ok := ParseGlob(g.Pattern)
		if !ok {
			return nil, refusedGlob(g.Pattern)
		}
		j.globs = append(j.globs, judgedGlob{g, patterns})
	}
	return j, nil
}

// A Judgement is the decision about a path.
type Judgement struct {
	Access Access
	Ruled  bool // a rule decides; else no rule is about the path
	Absent bool // a name that must not be created, or a path below one
	Masked bool // denied by a mask on exactly this path
	Effect Effect
}

// Writable reports whether the path may be written and the write would reach the
// host.
func (j Judgement) Writable() bool { return j.Access == Write && !j.Absent && j.Effect == HostWritable }

// Decide returns the decision about an absolute and clean path without links.
func (j *Judge) Decide(name string) Judgement {
	result := Judgement{Access: Deny, Effect: j.plan.Effect(name)}
	decidedAt := ""
	for at := name; ; at = path.Dir(at) {
		if r, ok := j.rules[at]; ok && (!result.Ruled || r.Private) {
			result.Ruled, result.Access, decidedAt = true, r.Access, at
			result.Masked = r.Access == Deny && at == name && r.Absent == ""
		}
		result.Absent = result.Absent || j.absent[at]
		if at == "/" {
			break
		}
	}
	for _, g := range j.globs {
		if at, ok := g.match(name); ok && len(at) > len(decidedAt) {
			result.Access, result.Ruled, result.Masked, decidedAt = Deny, true, false, at
		}
	}
	return result
}

// HasGlobs reports whether globs deny names for which there is no mount.
func (j *Judge) HasGlobs() bool { return len(j.globs) > 0 }

// match returns the deepest part of a path that the glob matches. It does not know
// whether the last component is a directory, so a pattern for directories matches
// it.
func (g *judgedGlob) match(name string) (at string, ok bool) {
	if !below(name, g.Dir) {
		return "", false
	}
	names := components(strings.TrimPrefix(strings.TrimPrefix(name, g.Dir), "/"))
	if g.Depth > 0 && uint64(len(names)) > g.Depth {
		names = names[:g.Depth]
	}
	for n := len(names); n > 0; n-- {
		if g.patterns.Match(names[:n], true) {
			return path.Join(g.Dir, strings.Join(names[:n], "/")), true
		}
	}
	return "", false
}
