package seatbelt

import (
	"regexp"
	"strings"
	"testing"
)

// rules are the rules of a profile that allow something about files, as a model of what macOS does with them. Rules that deny are left
// out: a profile must be right without them.
type rules struct {
	t          *testing.T
	parameters map[string]string
	list       []expression
}

// An expression is a list of a profile, or an atom.
type expression struct {
	atom string
	text bool // the atom is a string
	list []expression
}

func parse(t *testing.T, p *Profile) *rules {
	t.Helper()
	r := &rules{t: t, parameters: map[string]string{}}
	for _, v := range p.Parameters {
		r.parameters[v.Key] = v.Value
	}
	rest := p.Text
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		var e expression
		e, rest = r.read(rest)
		if e.list == nil {
			t.Fatalf("%q is not a rule", e.atom)
		}
		switch e.list[0].atom {
		case "allow":
			r.list = append(r.list, e)
		case "version", "deny":
		default:
			t.Fatalf("unknown rule %q", e.list[0].atom)
		}
	}
	return r
}

var atom = regexp.MustCompile(`^(#?"[^"\\]*"|[A-Za-z0-9*_-]+)`)

func (r *rules) read(text string) (e expression, rest string) {
	if rest, ok := strings.CutPrefix(text, "("); ok {
		for rest = strings.TrimSpace(rest); !strings.HasPrefix(rest, ")"); rest = strings.TrimSpace(rest) {
			var inner expression
			inner, rest = r.read(rest)
			e.list = append(e.list, inner)
		}
		return e, rest[1:]
	}
	found := atom.FindString(text)
	if found == "" {
		r.t.Fatalf("not an expression: %q", text)
	}
	e.text = strings.HasSuffix(found, `"`)
	e.atom = strings.Trim(strings.TrimPrefix(found, "#"), `"`)
	return e, text[len(found):]
}

// allows reports whether a rule allows an operation on a path.
func (r *rules) allows(operation, path string) bool {
	for _, rule := range r.list {
		has := false
		for _, e := range rule.list[1:] {
			switch {
			case e.list == nil:
				has = has || e.atom == operation
			case has && r.holds(e, path):
				return true
			}
		}
	}
	return false
}

// holds reports whether a condition about a path holds.
func (r *rules) holds(e expression, path string) bool {
	switch e.list[0].atom {
	case "require-all":
		for _, c := range e.list[1:] {
			if !r.holds(c, path) {
				return false
			}
		}
		return true
	case "require-not":
		return !r.holds(e.list[1], path)
	case "subpath":
		return within(path, r.value(e.list[1]))
	case "literal":
		return path == r.value(e.list[1])
	case "regex":
		return regexp.MustCompile("(?s)" + e.list[1].atom).MatchString(path)
	}
	r.t.Fatalf("unknown condition %q", e.list[0].atom)
	return false
}

func (r *rules) value(e expression) string {
	if e.list == nil {
		return e.atom
	}
	value, known := r.parameters[e.list[1].atom]
	if e.list[0].atom != "param" || !known {
		r.t.Fatalf("unknown parameter %+v", e)
	}
	return value
}
