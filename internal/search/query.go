package search

import (
	"math"
	"regexp"
	"regexp/syntax"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/wire"
)

// maxProgram limits the size of a compiled pattern. A match cannot be interrupted, so
// this and wire.MaxLineSearched limit the time for one line.
const maxProgram = 2000

// A Query says which lines to find.
type Query struct {
	pattern       *regexp.Regexp // nil: all
	stream        outlog.Stream  // 0: all
	from, to      uint64         // numbers of lines
	matches       int
	before, after int
}

// NewQuery checks the parameters of a client.
func NewQuery(p *wire.SearchParams) (Query, error) {
	q := Query{
		from: max(1, optional(p.FromLine, 1, math.MaxUint64)), to: optional(p.ToLine, math.MaxUint64, math.MaxUint64),
		matches: int(max(1, optional(p.MaxMatches, wire.DefaultMatches, wire.MaxMatches))),
		before:  int(optional(p.Before, 0, wire.MaxContext)), after: int(optional(p.After, 0, wire.MaxContext)),
	}
	if p.Stream != nil {
		for _, s := range []outlog.Stream{outlog.Stdout, outlog.Stderr, outlog.PTY} {
			if s.String() == *p.Stream {
				q.stream = s
			}
		}
		if q.stream == 0 {
			return q, wire.Errorf(wire.CodeInvalidParams, "stream must be stdout, stderr or pty")
		}
	}
	if p.Pattern == nil {
		return q, nil
	}
	var err error
	q.pattern, err = compile(*p.Pattern, p.IgnoreCase != nil && *p.IgnoreCase)
	return q, err
}

// match returns the position of the first match; nil if there is none.
func (q Query) match(text []byte) []int {
	if q.pattern == nil {
		return []int{0, 0}
	}
	return q.pattern.FindIndex(text)
}

// optional returns *n, at most limit, or otherwise if n is nil.
func optional(n *uint64, otherwise, limit uint64) uint64 {
	if n == nil {
		return otherwise
	}
	return min(*n, limit)
}

func compile(pattern string, ignoreCase bool) (*regexp.Regexp, error) {
	if len(pattern) > wire.MaxPattern {
		return nil, wire.Errorf(wire.CodeInvalidParams, "pattern must have at most %d bytes", wire.MaxPattern)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "invalid pattern: %v", err)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, wire.Errorf(wire.CodeInvalidParams, "pattern is too complex")
	}
	if ignoreCase {
		pattern = "(?i)" + pattern
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "invalid pattern: %v", err)
	}
	return compiled, nil
}
