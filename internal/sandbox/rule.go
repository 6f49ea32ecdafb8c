package sandbox

import (
	"path"
	"strconv"
	"strings"
)

// Access is what a rule allows for a path and everything below it.
type Access int

// The values of Access, each including those before it.
const (
	Deny Access = iota
	Read
	Write
)

func (a Access) String() string { return [...]string{"deny", "read", "write"}[a] }

// Origin says where a rule comes from.
type Origin int

// The origins of rules.
const (
	NoRule           Origin = iota // no rule is about the path
	FromEntry                      // an entry of the intent
	FromGlob                       // a path that a glob entry matched
	FromMinimal                    // the system directories
	FromProtected                  // a protected name below a writable root
	FromGitdir                     // where a protected .git file points
	FromControl                    // a socket or pipe that controls a service outside
	FromSystem                     // a part of /proc or /sys
	FromPrivate                    // the server's own state
	FromRuntime                    // a program that a backend must be able to run
	FromCertificates               // the certificates that programs in a managed network trust
	Unrestricted                   // files are not restricted at all
)

// A Rule is the decision about one path.
type Rule struct {
	Path   string // without links
	Access Access
	Origin Origin
	Named  string // as the intent names it: a path, a pattern, or :KIND for a special path

	literal   string // before links were followed
	place     resolvedPath
	emptyDir  bool // while missing, an empty directory takes its place
	creatable bool // the gap could be filled by the user
}

// String names the rule and what it allows. A rule of an entry has the name that the
// intent gives it, so that its author recognises it.
func (r Rule) String() string {
	var s string
	switch r.Origin {
	case NoRule:
		return "no entry"
	case Unrestricted:
		return "unrestricted"
	case FromEntry, FromGlob, FromMinimal:
		s = "entry " + quoted(shortened(r.Named))
	case FromProtected:
		s = "protected name"
	case FromGitdir:
		s = "gitdir"
	case FromControl:
		s = "control socket"
	case FromSystem:
		s = "of the kernel"
	case FromPrivate:
		s = "private to tether"
	case FromRuntime:
		s = "needed to start"
	case FromCertificates:
		s = "certificates"
	}
	return s + ", " + r.Access.String()
}

// beats reports whether r wins over another rule about the same path.
func (r *Rule) beats(other *Rule) bool {
	rank := func(r *Rule) int {
		switch {
		case r.Origin == FromPrivate:
			return 3
		case r.Access == Deny:
			return 2
		case r.Access == Write:
			return 1
		}
		return 0
	}
	return rank(r) > rank(other)
}

// rules decide about paths: the rule with the most components wins, and for
// the same path deny beats write beats read.
type rules struct {
	byPath map[string]*Rule // the winning rules
	all    []*Rule          // in the order in which they were added
}

func newRules() *rules { return &rules{byPath: make(map[string]*Rule)} }

func (rs *rules) add(r Rule) {
	rs.all = append(rs.all, &r)
	old := rs.byPath[r.Path]
	if old == nil || r.beats(old) {
		rs.byPath[r.Path] = &r
	}
	if old != nil {
		winner := rs.byPath[r.Path]
		winner.emptyDir = old.emptyDir || r.emptyDir
	}
}

// decide returns the rule for a clean path, nil if there is none. Other rules
// open nothing below a private path.
func (rs *rules) decide(p string) *Rule {
	var found *Rule
	for {
		if r := rs.byPath[p]; r != nil && (found == nil || r.Origin == FromPrivate) {
			found = r
		}
		if p == "/" {
			return found
		}
		p = path.Dir(p)
	}
}

func (rs *rules) access(p string) Access {
	if r := rs.decide(p); r != nil {
		return r.Access
	}
	return Deny
}

// maxRuleName is how many bytes of a name are shown: a client can send a path as long
// as a message.
const maxRuleName = 512

// shortened leaves out the middle of a name that is too long.
func shortened(name string) string {
	if len(name) <= maxRuleName {
		return name
	}
	head, tail := name[:maxRuleName/2], name[len(name)-maxRuleName/2:]
	return strings.ToValidUTF8(head, "") + "…" + strings.ToValidUTF8(tail, "")
}

// quoted returns a path as it is, or quoted if it would be hard to read.
func quoted(p string) string {
	if p == "" || strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r == '#' || r == '"' || !strconv.IsPrint(r) }) {
		return strconv.Quote(p)
	}
	return p
}
