package native

import (
	"fmt"
	"strings"
)

// String returns the script as text that does not change without need and is the same for all processors: a line for
// each record, in groups that fail as one.
func (s *Script) String() string {
	var b strings.Builder
	marked := make(map[int][]int)
	for l, at := range s.labels {
		if at >= 0 {
			marked[at] = append(marked[at], l)
		}
	}
	last := -1
	for i := range s.records {
		r := &s.records[i]
		if r.step != last {
			last = r.step
			fmt.Fprintf(&b, "# %v\n", s.steps[last])
		}
		for _, l := range marked[i] {
			fmt.Fprintf(&b, "%v:\n", label(l))
		}
		fmt.Fprintf(&b, "\t%s", s.line(r))
		b.WriteByte('\n')
	}
	return b.String()
}

func (l label) String() string { return fmt.Sprintf("L%d", int(l)) }

func (s *Script) line(r *record) string {
	var b strings.Builder
	if r.result != 0 {
		fmt.Fprintf(&b, "c%d = ", uint64(r.result))
	}
	name := callName(r.call)
	b.WriteString(name)
	used := len(r.args)
	for used > 0 && r.args[used-1] == (value{}) {
		used--
	}
	for _, a := range r.args[:used] {
		b.WriteByte(' ')
		b.WriteString(s.valueText(a))
	}
	if r.welcome {
		b.WriteString(" (may fail)")
	}
	return b.String()
}

func (s *Script) valueText(v value) string {
	switch v.kind {
	case isAddress:
		for text, at := range s.texts {
			if uint64(at) == v.n {
				return fmt.Sprintf("%q", text)
			}
		}
		return fmt.Sprintf("&c%d", v.n)
	case isContent:
		return fmt.Sprintf("c%d", v.n)
	case isLabel:
		return label(v.n).String()
	case isHeader:
		return fmt.Sprintf("header[%d]", v.n)
	}
	if int64(v.n) < 0 {
		return fmt.Sprint(int64(v.n))
	}
	return fmt.Sprintf("%#x", v.n)
}
