package sandbox

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// Limits of globs.
const (
	maxGlobMatches = 8192    // per glob
	maxGlobVisits  = 1 << 20 // names looked at, per glob
	maxGlobBraces  = 256     // alternatives, per glob
)

// A glob denies the paths below a directory that match a pattern.
type glob struct {
	named   string // the pattern as it was given
	dir     string // where the search starts; absolute and clean
	pattern string // the rest, relative to dir
}

func refusedGlob(pattern string) error {
	return Unenforceable("unreadable glob `%s` cannot be safely expanded; use a pattern with a non-root directory prefix", pattern)
}

// expandGlob binds a pattern to its base directories. Only a deny has an
// effect.
func (b *binder) expandGlob(pattern string, access Access) error {
	if access != Deny {
		return nil
	}
	bases, rest := []string{b.sandboxCwd}, pattern
	if symbolic, ok := strings.CutPrefix(pattern, symbolicGlob); ok {
		bases, rest = b.roots, strings.TrimLeft(symbolic, "/")
	} else if path.IsAbs(pattern) {
		bases = []string{"/"}
	}
	for _, base := range bases {
		g, ok := splitGlob(base, rest)
		if !ok {
			return refusedGlob(pattern)
		}
		g.named = pattern
		b.globs = append(b.globs, g)
	}
	return nil
}

// splitGlob splits a pattern before its first component with a wildcard. The
// base is taken literally, even if it contains wildcards.
func splitGlob(base, pattern string) (glob, bool) {
	wild := strings.IndexAny(pattern, "*?[]")
	if wild < 0 || !path.IsAbs(base) || strings.Contains(pattern, "\x00") {
		return glob{}, false
	}
	cut := strings.LastIndexByte(pattern[:wild], '/') + 1
	g := glob{dir: path.Join(base, pattern[:cut]), pattern: pattern[cut:]}
	for _, c := range components(g.pattern) {
		if c == ".." || c == "." {
			return glob{}, false // no name in a directory is "." or ".."
		}
	}
	return g, g.dir != "/" && !within(g.dir, "/proc")
}

// deny adds a rule for each path that a glob matches now.
func (b *binder) deny(g glob) error {
	at := b.finder.find(g.dir)
	if at.gap == gapMissing && strings.ContainsAny(g.dir, "{\\") || within(at.path, "/proc") || at.path == "/" {
		return refusedGlob(g.named)
	}
	if at.gap == gapUnknown && b.rules.access(at.gapAt) == Write {
		return Unenforceable("unreadable glob `%s`: cannot search %s", g.named, g.dir)
	}
	patterns, ok := ParseGlob(g.pattern)
	applied := BookGlob{Dir: at.path, Pattern: g.pattern}
	w := globWalk{b: b, glob: g, patterns: patterns, visits: maxGlobVisits}
	if depth := b.intent.Permissions.FileSystem.GlobScanMaxDepth; depth != nil {
		w.limited, w.depth = true, *depth
		applied.Depth = *depth
	}
	if ok {
		b.applied = append(b.applied, applied)
		b.globLinks = append(b.globLinks, at.links...)
	}
	switch {
	case !at.isDir():
		return nil
	case !ok:
		return refusedGlob(g.named)
	}
	if err := w.dir(at.path, nil); err != nil {
		return err
	}
	for _, rel := range w.found {
		// Use the name below the given directory, so that the links in it are
		// checked.
		b.add(path.Join(g.dir, rel), Deny, FromGlob, g.named)
	}
	return nil
}

// A globWalk looks for matches. It follows no links.
type globWalk struct {
	b        *binder
	glob     glob
	patterns Glob
	limited  bool
	depth    uint64
	visits   int
	found    []string // relative to the search directory
}

func (w *globWalk) dir(real string, rel []string) error {
	if w.limited && uint64(len(rel)) >= w.depth {
		return nil
	}
	entries, err := w.b.finder.host.ReadDir(real)
	if err != nil {
		// If permission is missing, the command cannot list the directory
		// either, unless it may change the directory's mode.
		if w.b.rules.access(real) == Write || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
			return Unenforceable("unreadable glob `%s`: cannot search %s: %v", w.glob.named, real, err)
		}
		return nil
	}
	for _, e := range entries {
		if w.visits--; w.visits < 0 {
			return Unenforceable("unreadable glob expansion for %s looked at more than %d paths", w.glob.dir, maxGlobVisits)
		}
		name := append(rel[:len(rel):len(rel)], e.Name())
		child := path.Join(real, e.Name())
		isDir := e.Type().IsDir()
		matched := w.patterns.Match(name, isDir || e.Type()&fs.ModeSymlink != 0)
		if matched {
			if len(w.found) == maxGlobMatches {
				return Unenforceable("unreadable glob expansion for %s matched more than %d paths", w.glob.dir, maxGlobMatches)
			}
			w.found = append(w.found, strings.Join(name, "/"))
		}
		// Below a hidden directory everything is hidden, unless a rule opens
		// it.
		if isDir && (!matched || w.opened(child)) {
			if err := w.dir(child, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// opened reports whether a rule opens something below a directory.
func (w *globWalk) opened(dir string) bool {
	for _, r := range w.b.rules.all {
		if r.Access != Deny && below(r.Path, dir) {
			return true
		}
	}
	return false
}
