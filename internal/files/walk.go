package files

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// A walkName is a name in a directory that counts as an entry of a walk.
type walkName struct {
	name string
	kind walkKind
	id   any   // identifies a directory, if links to directories are followed
	err  error // the name cannot be examined
}

type walkKind byte

const (
	walkOther walkKind = iota // counted, not listed
	walkFile
	walkDirectory
)

// Walk lists everything below a directory, breadth first, each directory in
// the order of its names. If a limit is reached, the result is marked as
// truncated.
func (Direct) Walk(ctx context.Context, path string, options wire.WalkOptions) (wire.WalkResult, error) {
	result, err := walk(ctx, path, options, openWalk)
	return result, failed(err)
}

func walk(ctx context.Context, path string, options wire.WalkOptions, open func(path string, follow bool) (*walkRoot, error)) (wire.WalkResult, error) {
	if options.MaxDirectories == 0 || options.MaxEntries == 0 {
		return wire.WalkResult{}, errWalkZero
	}
	if options.MaxDepth > MaxWalkDepth || options.MaxDirectories > MaxWalkDirs || options.MaxEntries > MaxWalkEntries {
		return wire.WalkResult{}, errWalkMaximum
	}
	path, err := clean(path, true)
	if err != nil {
		return wire.WalkResult{}, err
	}
	w := &walker{options: options, seen: map[any]bool{}}
	w.result.Entries, w.result.Errors = []wire.WalkEntry{}, []wire.WalkError{}
	root, err := open(path, options.FollowDirectorySymlinks)
	if root == nil || err != nil {
		return w.result, err
	}
	defer root.close()
	w.path, w.left = path, int(options.MaxEntries)
	w.seen[root.id] = true
	err = w.run(ctx, root)
	return w.result, err
}

// A walker is one walk in progress.
type walker struct {
	options wire.WalkOptions
	path    string // of the root

	result wire.WalkResult
	used   int // bytes of the result's budget
	left   int // entries that may still be examined
	queue  []walkStep
	seen   map[any]bool // directories that were or will be entered
}

// A walkStep is a directory to enter.
type walkStep struct {
	below string // its path below the root, "" for the root
	depth uint64
}

func (w *walker) run(ctx context.Context, root *walkRoot) error {
	w.queue = []walkStep{{}}
	for at := 0; at < len(w.queue); at++ {
		step := w.queue[at]
		names, err := root.list(ctx, step.below, w.left+1)
		if stop := cancelled(ctx); stop != nil {
			return stop
		}
		if errors.Is(err, ErrElsewhere) {
			return err
		}
		dir := joinPath(w.path, step.below)
		uri := wire.PathToURI(dir)
		if err != nil && !w.fail(uri, err) {
			return nil
		}
		for _, name := range names {
			if !w.entry(step, dir, uri, name) {
				w.result.Truncated = true
				return nil
			}
		}
	}
	return nil
}

// entry adds a name in the directory dir. It returns false at the end of the
// walk.
func (w *walker) entry(step walkStep, dir, uri string, name *walkName) bool {
	if w.left == 0 {
		return false
	}
	w.left--
	if name.err == nil && name.kind == walkOther {
		return true
	}
	uri = childURI(dir, uri, name.name)
	if name.err != nil {
		return w.fail(uri, name.err)
	}
	if !w.spend(len(uri)) {
		return false
	}
	if name.kind == walkFile {
		w.result.Entries = append(w.result.Entries, wire.WalkEntry{Path: uri, Kind: wire.WalkFile})
		return true
	}
	w.result.Entries = append(w.result.Entries, wire.WalkEntry{Path: uri, Kind: wire.WalkDirectory})
	w.enter(step, name)
	return true
}

// enter queues a directory, unless the options exclude it.
func (w *walker) enter(step walkStep, name *walkName) {
	if step.depth >= w.options.MaxDepth || w.options.PruneHiddenDirectories && strings.HasPrefix(name.name, ".") {
		return
	}
	if w.options.FollowDirectorySymlinks && w.seen[name.id] {
		return
	}
	if uint64(len(w.queue)) >= w.options.MaxDirectories {
		w.result.Truncated = true
		return
	}
	if w.options.FollowDirectorySymlinks {
		w.seen[name.id] = true
	}
	w.queue = append(w.queue, walkStep{joinPath(step.below, name.name), step.depth + 1})
}

// fail adds the error of a name that cannot be examined. It returns false at the
// end of the walk.
func (w *walker) fail(uri string, err error) bool {
	text := (&Error{err}).Error()
	if !w.spend(len(uri) + len(text)) {
		w.result.Truncated = true
		return false
	}
	w.result.Errors = append(w.result.Errors, wire.WalkError{Path: uri, Message: text})
	return true
}

// spend takes an item off the result's budget.
func (w *walker) spend(bytes int) bool {
	if w.used+walkItem+bytes > MaxWalkAnswer {
		return false
	}
	w.used += walkItem + bytes
	return true
}

// joinPath joins two parts of a path; either may be empty.
func joinPath(dir, name string) string {
	switch {
	case dir == "":
		return name
	case name == "":
		return dir
	case os.IsPathSeparator(dir[len(dir)-1]):
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

// childURI returns the URI of a name in the directory dir, whose own URI is
// uri.
func childURI(dir, uri, name string) string {
	if isPlain(name) && !strings.HasSuffix(uri, "/") && !isOpaque(uri) {
		return uri + "/" + name
	}
	return wire.PathToURI(joinPath(dir, name))
}

// isOpaque reports whether a URI has the form to which no names can be added.
func isOpaque(uri string) bool { return strings.HasPrefix(uri, "file:///%00/") }

// isPlain reports whether a name is the same in a URI as in a path.
func isPlain(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c|0x20 < 'a' || c|0x20 > 'z' {
			if c < '-' || c > '9' || c == '/' { // other than - . and digits
				if c != '_' {
					return false
				}
			}
		}
	}
	return name != "." && name != ".."
}

// smallest sorts names and keeps the first n.
func smallest(names []*walkName, n int) []*walkName {
	slices.SortFunc(names, func(a, b *walkName) int { return cmp.Compare(a.name, b.name) })
	return names[:min(n, len(names))]
}
