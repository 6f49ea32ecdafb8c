// Package seatbelt writes a [sandbox.Plan] as a profile for the sandbox of macOS (sandbox-exec). It is a pure
// function, and nothing uses it yet: a sandbox request on macOS is refused. The profiles were never tried on macOS.
//
// It promises:
//
//   - A path of a plan is a parameter of the profile and never a part of its text, so no path can change the rules.
//     The pattern of a glob has to be text; only letters, digits and a few harmless characters of it are copied.
//   - The profile allows no more than the plan. It denies by default and only allows what each bind opens, without what
//     is restricted below, so it does not depend on the order of rules. Where macOS has no equivalent, it allows less:
//     there are no private /tmp, /dev and /proc, and a masked name cannot be seen at all.
//   - An operation that it does not know is an error.
//
// Where a change belongs: seatbelt.go has the areas of a plan and the rules for files, base.go the rules that every
// profile has and those for the network, glob.go the patterns.
package seatbelt

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tetherexec/tether/internal/sandbox"
)

// maxFilters is how many conditions a profile may have. Compiling a profile takes macOS time for each.
const maxFilters = 10_000

// A Request has the inputs of a profile beside the plan.
type Request struct {
	// Globs deny names that match, also names that are created later. The plan has those that exist.
	Globs []sandbox.BookGlob

	// Ports are the local ports of the proxies of a managed network.
	Ports []uint16
}

// A Parameter is a value for the profile: `sandbox-exec -D KEY=VALUE`.
type Parameter struct{ Key, Value string }

// A Profile is the text for `sandbox-exec -p`, and its parameters in their order.
type Profile struct {
	Text       string
	Parameters []Parameter
}

// Arguments returns the arguments of sandbox-exec, without the command.
func (p *Profile) Arguments() []string {
	args := []string{"-p", p.Text}
	for _, v := range p.Parameters {
		args = append(args, "-D"+v.Key+"="+v.Value)
	}
	return append(args, "--")
}

// An access is what a process may do with the files of an area.
type access int

const (
	hidden   access = iota
	guarded         // to read; the name itself need not exist, and must not be created
	readable        // to read
	writable        // to read and write
)

// An area is a path with everything below it, up to the areas below it.
type area struct {
	path   string
	access access
	pinned bool // the path itself must not be moved or removed
}

// New returns the profile of a plan.
func New(plan *sandbox.Plan, r Request) (*Profile, error) {
	if plan.Shape == sandbox.ShapeOpen {
		return nil, fmt.Errorf("a plan of shape %v is not for Seatbelt", plan.Shape)
	}
	if len(plan.Ops) > maxFilters {
		return nil, tooMany() // before the areas are compared with each other
	}
	b := &builder{keys: map[string]string{}}
	areas := []area{{path: "/", access: writable}}
	if plan.Shape == sandbox.ShapeNamespaces {
		var err error
		if areas, err = areasOf(plan.Ops); err != nil {
			return nil, err
		}
	}
	for _, g := range r.Globs {
		if err := b.addGlob(g); err != nil {
			return nil, err
		}
	}
	b.text.WriteString(base)
	for _, a := range areas {
		if a.access >= readable {
			b.allow("file-read* file-map-executable process-exec*", a, below(areas, a.path, func(o area) bool { return o.access == hidden }))
		}
	}
	for _, a := range areas {
		if a.access == writable && !(a.pinned && enclosing(areas, a.path) == writable) {
			b.allow("file-write*", a, below(areas, a.path, func(o area) bool { return o.access != writable || o.pinned }))
		}
	}
	b.ancestors(areas)
	b.unlinks(areas)
	b.patterns()
	if err := b.network(plan, r.Ports); err != nil {
		return nil, err
	}
	if b.filters > maxFilters {
		return nil, tooMany()
	}
	return &Profile{Text: b.text.String(), Parameters: b.parameters}, nil
}

func tooMany() error {
	return fmt.Errorf("the sandbox needs more than %d conditions in a profile of Seatbelt: use fewer entries", maxFilters)
}

// areasOf returns the areas of a plan. If several operations are about a path, the last one counts.
func areasOf(ops []sandbox.Op) (areas []area, err error) {
	at := map[string]int{}
	missing := map[string]bool{} // names that must not be created
	set := func(name string, to access, pinned bool) {
		i, known := at[name]
		if !known {
			i = len(areas)
			at[name], areas = i, append(areas, area{path: name})
		}
		areas[i].access, areas[i].pinned = to, areas[i].pinned || pinned
	}
	for _, op := range ops {
		if !path.IsAbs(op.Path) || path.Clean(op.Path) != op.Path || strings.ContainsRune(op.Path, 0) {
			return nil, fmt.Errorf("Seatbelt cannot have rules about the path %q", op.Path)
		}
		switch op.Kind {
		case sandbox.OpBindRO:
			set(op.Path, readable, false)
		case sandbox.OpBindRW:
			set(op.Path, writable, false)
		case sandbox.OpPin:
			set(op.Path, writable, true)
		case sandbox.OpPlaceholder:
			missing[op.Path] = true
		case sandbox.OpMaskDir, sandbox.OpMaskFile, sandbox.OpCover:
			if missing[op.Path] {
				set(op.Path, guarded, false)
			} else {
				set(op.Path, hidden, false)
			}
		case sandbox.OpScratch, sandbox.OpDev, sandbox.OpProc:
			set(op.Path, hidden, false) // base.go has the devices
		case sandbox.OpFreeze, sandbox.OpSeal, sandbox.OpDir, sandbox.OpSymlink:
			// nothing of this exists on macOS, and what is not allowed is denied
		default:
			return nil, fmt.Errorf("Seatbelt cannot do %v", op)
		}
	}
	return areas, nil
}

// below returns the areas below a path that are to be left out.
func below(areas []area, dir string, leaveOut func(area) bool) (list []area) {
	for _, a := range areas {
		if a.path != dir && within(a.path, dir) && leaveOut(a) {
			list = append(list, a)
		}
	}
	return list
}

// enclosing returns the access of the area around a path, without the area of the path itself.
func enclosing(areas []area, name string) access {
	around := area{}
	for _, a := range areas {
		if a.path != name && within(name, a.path) && len(a.path) >= len(around.path) {
			around = a
		}
	}
	return around.access
}

// within reports whether a path is dir or below it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir) && name[len(dir)] == '/'
}

// A builder collects the text of a profile.
type builder struct {
	text       strings.Builder
	parameters []Parameter
	keys       map[string]string // by path
	globs      []regex
	filters    int
}

// param returns the expression for a path.
func (b *builder) param(name string) string {
	key, known := b.keys[name]
	if !known {
		key = fmt.Sprintf("P%d", len(b.parameters))
		b.keys[name] = key
		b.parameters = append(b.parameters, Parameter{key, name})
	}
	b.filters++
	return `(param "` + key + `")`
}

// allow allows operations in an area, except for the areas below it and what globs deny there.
func (b *builder) allow(operations string, a area, except []area) {
	fmt.Fprintf(&b.text, "(allow %s\n  (require-all\n    (subpath %s)", operations, b.param(a.path))
	for _, e := range except {
		kind := "subpath"
		if e.access == writable {
			kind = "literal" // a pin: what is below stays writable
		}
		fmt.Fprintf(&b.text, "\n    (require-not (%s %s))", kind, b.param(e.path))
	}
	for _, g := range b.globs {
		if within(g.dir, a.path) || within(a.path, g.dir) {
			b.filters++
			fmt.Fprintf(&b.text, "\n    (require-not (regex #\"%s\"))", g.text)
		}
	}
	b.text.WriteString("))\n")
}

// ancestors lets programs look up the directories above what they may read.
func (b *builder) ancestors(areas []area) {
	var dirs []string
	for _, a := range areas {
		for dir := a.path; a.access >= readable && dir != "/"; {
			dir = path.Dir(dir)
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		fmt.Fprintf(&b.text, "(allow file-read-metadata (literal %s))\n", b.param(dir))
	}
}

// unlinks keeps the roots and the restricted names where they are: a rule about a path does not follow what is moved away. This is a
// second wall, the names that matter are not in what is allowed.
func (b *builder) unlinks(areas []area) {
	for _, a := range areas {
		if a.path != "/" {
			fmt.Fprintf(&b.text, "(deny file-write-unlink (literal %s))\n", b.param(a.path))
		}
	}
}

// patterns denies what globs match. This is a second wall, too.
func (b *builder) patterns() {
	for _, g := range b.globs {
		b.filters++
		fmt.Fprintf(&b.text, "(deny file-read* file-write* process-exec* (regex #\"%s\"))\n", g.text)
	}
}
