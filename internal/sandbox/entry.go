package sandbox

import (
	"path"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// minimalPaths are the directories that programs need to run at all.
var minimalPaths = []string{
	"/bin", "/sbin", "/usr", "/etc", "/lib", "/lib64", "/nix/store", "/run/current-system/sw",
}

// symbolicGlob is the prefix of a pattern that applies to each workspace
// root.
const symbolicGlob = "codex-project-roots://"

// A resolvedEntry is an entry of the intent with its symbolic name resolved. An entry
// about the workspace roots becomes one entry per root.
type resolvedEntry struct {
	name   string // as the intent has it; :KIND for a special path
	kind   string // of wire.SandboxPath or, for special ones, of wire.SpecialPath
	access Access
	path   string // absolute and clean; empty if it names nothing here
}

// expand replaces symbolic names. native holds the paths of path entries.
func (b *binder) expand(native map[int]string) error {
	for i, e := range b.intent.Permissions.FileSystem.Entries {
		access, err := accessOf(e.Access)
		if err != nil {
			return err
		}
		switch e.Path.Type {
		case wire.SandboxPathURI:
			b.entries = append(b.entries, resolvedEntry{native[i], e.Path.Type, access, native[i]})
		case wire.SandboxPathGlob:
			if err := b.expandGlob(e.Path.Pattern, access); err != nil {
				return err
			}
		case wire.SandboxPathSpecial:
			if err := b.expandSpecial(e.Path.Special, access); err != nil {
				return err
			}
		default:
			return &IntentError{text: "unknown sandbox path type `" + e.Path.Type + "`"}
		}
	}
	return nil
}

func accessOf(a wire.Access) (Access, error) {
	switch a {
	case wire.AccessDeny:
		return Deny, nil
	case wire.AccessRead:
		return Read, nil
	case wire.AccessWrite:
		return Write, nil
	}
	return Deny, &IntentError{text: "unknown sandbox access `" + string(a) + "`"}
}

func (b *binder) expandSpecial(s wire.SpecialPath, access Access) error {
	e := resolvedEntry{name: ":" + s.Kind, kind: s.Kind, access: access}
	switch s.Kind {
	case wire.SpecialUnknown:
		return nil
	case wire.SpecialProjectRoots:
		subpath := ""
		if s.Subpath != nil {
			subpath = *s.Subpath
		}
		if path.IsAbs(subpath) || strings.Contains(subpath, "\x00") {
			return Unenforceable("the subpath %q of a project root is not a relative path", subpath)
		}
		if subpath != "" {
			e.name += "/" + subpath
		}
		for _, root := range b.roots {
			e.path = path.Join(root, subpath)
			b.entries = append(b.entries, e)
		}
		return nil
	case wire.SpecialRoot:
		e.path = "/"
	case wire.SpecialTmpdir:
		e.path = variablePath(b.process.Env, "TMPDIR")
	case wire.SpecialSlashTmp:
		if at := b.finder.find("/tmp"); at.isDir() {
			e.path = "/tmp"
		}
	case wire.SpecialMinimal:
	default:
		return &IntentError{text: "unknown special path `" + s.Kind + "`"}
	}
	b.entries = append(b.entries, e)
	return nil
}

// variablePath returns the value of a variable if it is an absolute path, else an empty
// string.
func variablePath(env []string, name string) string {
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, name+"="); ok {
			if !path.IsAbs(p) || strings.Contains(p, "\x00") {
				return ""
			}
			return path.Clean(p)
		}
	}
	return ""
}

// fullRead reports whether everything may be read.
func (b *binder) fullRead() bool {
	root := false
	for _, e := range b.entries {
		if e.access == Deny {
			return false
		}
		root = root || e.kind == wire.SpecialRoot
	}
	return root && len(b.globs) == 0
}

// fullWrite reports whether everything may be written. A read entry narrows that,
// unless a write entry names the same path. A write entry that reaches the path
// through a link does not count, because a command could have made the link.
func (b *binder) fullWrite() bool {
	if !b.rootWrite() || b.hasGlobs() {
		return false
	}
	written := make(map[string]bool)
	for _, e := range b.entries {
		if e.access == Write && e.path != "" {
			written[e.path] = true
			if at := b.finder.find(e.path); at.links == nil {
				written[at.path] = true
			}
		}
	}
	for _, e := range b.entries {
		switch {
		case e.access == Deny:
			return false
		case e.access == Write || e.kind == wire.SpecialRoot || e.kind == wire.SpecialMinimal:
		case e.path == "" || !written[e.path] && !written[b.finder.find(e.path).path]:
			return false
		}
	}
	return true
}

// rootWrite reports whether an entry makes the whole file system writable.
func (b *binder) rootWrite() bool {
	for _, e := range b.entries {
		if e.kind == wire.SpecialRoot && e.access == Write {
			return true
		}
	}
	return false
}

func (b *binder) hasGlobs() bool {
	for _, e := range b.intent.Permissions.FileSystem.Entries {
		if e.Path.Type == wire.SandboxPathGlob {
			return true
		}
	}
	return false
}

// addMinimal makes the system directories readable if no entry, or only an
// entry about the root, applies to them. It never takes access away.
func (b *binder) addMinimal() {
	access, name := Deny, ""
	for _, e := range b.entries {
		if e.kind == wire.SpecialMinimal && (name == "" || e.access == Deny) {
			access, name = min(e.access, Read), e.name
		}
	}
	if name == "" {
		return
	}
	var open []string // found before the first rule is added
	for _, p := range minimalPaths {
		at := b.finder.find(p)
		if !at.exists() {
			continue
		}
		r := b.rules.decide(at.path)
		if access == Deny || r == nil || r.Access == Deny && r.Path == "/" {
			open = append(open, p)
		}
	}
	for _, p := range open {
		b.add(p, access, FromMinimal, name)
	}
}
