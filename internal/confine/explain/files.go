package explain

import (
	"slices"

	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

// Files describes what a policy lets a command do with files, by at most the given number of places and exceptions. The type of the
// sandbox is left to the caller.
func Files(p *sandbox.Policy, most int) wire.SandboxFacts {
	f := wire.SandboxFacts{FullRead: p.FullRead, FullWrite: p.FullWrite}
	if p.FullWrite {
		f.Readable, f.Writable = []wire.SandboxPlace{}, []wire.SandboxPlace{}
		return f
	}
	f.Writable = places(p.WritableRoots(), &most)
	f.Readable = places(p.ReadableRoots(), &most)
	f.Partial = most < 0
	return f
}

// places lists each exception once, below the innermost root that has it. most is how many places and exceptions may be listed; afterwards it is
// negative if there are more.
func places(roots []sandbox.Root, most *int) []wire.SandboxPlace {
	places := []wire.SandboxPlace{}
	for i, root := range roots {
		if *most--; *most < 0 {
			return places
		}
		place := wire.SandboxPlace{Path: root.Path, Except: []wire.SandboxRule{}}
		for _, rule := range root.CarveOuts {
			inner := slices.ContainsFunc(roots[i+1:], func(r sandbox.Root) bool {
				return len(r.Path) > len(root.Path) && slices.ContainsFunc(r.CarveOuts, func(c sandbox.Rule) bool { return c.Path == rule.Path })
			})
			if inner {
				continue
			}
			if *most--; *most < 0 {
				break
			}
			place.Except = append(place.Except, wire.SandboxRule{Path: rule.Path, Access: rule.Access.String(), Rule: rule.String()})
		}
		places = append(places, place)
	}
	return places
}

// FileRows passes the rows that describe the files to row. A row without a name belongs to the one before.
func FileRows(f *wire.SandboxFacts, row func(name, text string)) {
	rows := func(name string, everything bool, places []wire.SandboxPlace) {
		if len(places) == 0 && !everything {
			row(name, "nothing")
		} else if len(places) == 0 {
			row(name, "everything")
		}
		for _, place := range places {
			path := place.Path
			if everything && path == "/" {
				path = "everything"
			}
			row(name, path)
			name = ""
			for _, x := range place.Except {
				row("", "  except "+x.Path+": "+AccessWords[x.Access]+" ("+x.Rule+")")
			}
		}
	}
	rows("readable", f.FullRead || f.FullWrite, f.Readable)
	rows("writable", f.FullWrite, f.Writable)
	if f.Partial {
		row("", "and more, which is left out here")
	}
}

// AccessWords describe an access in words.
var AccessWords = map[string]string{"deny": "no access", "read": "read only", "write": "read and write"}
