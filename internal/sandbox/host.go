package sandbox

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// A Host lets the compiler look at a machine without changing it. Paths are
// absolute and clean. Errors are distinguished by fs.ErrNotExist and
// syscall.ENOTDIR.
type Host interface {
	Lstat(path string) (fs.FileMode, error)
	Readlink(path string) (string, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	// ReadFile returns the beginning of a file, at most limit bytes.
	ReadFile(path string, limit int) ([]byte, error)
	// CanCreate reports whether the user of this process can make names in a
	// directory, or could after changing its mode.
	CanCreate(dir string) bool
	// CanRemove reports whether the user of this process can remove or replace a
	// name, or could after changing the mode of its directory.
	CanRemove(path string) bool
	// Foreign reports whether a name (for a link: the link itself) belongs to a user other
	// than ours, root and the owner of the directory. Such a user can create names there,
	// as in /tmp, and they must not decide anything for us.
	Foreign(path string) bool
}

// maxLinks is how many symbolic links a path may go through, as in the kernel.
const maxLinks = 40

// A gap is the reason why a path does not exist.
type gap int

const (
	noGap      gap = iota
	gapMissing     // a component does not exist
	gapFile        // a component that should be a directory is not one
	gapUnknown     // a component cannot be looked at
	gapLoop        // too many links
)

// A resolvedPath is the result of resolving a path, as far as it exists.
type resolvedPath struct {
	path  string      // without links; the components after a gap are literal
	mode  fs.FileMode // if there is no gap
	gap   gap
	gapAt string         // the component with the gap
	links []followedLink // followed on the way
}

func (p *resolvedPath) exists() bool { return p.gap == noGap }
func (p *resolvedPath) isDir() bool  { return p.exists() && p.mode.IsDir() }

// A followedLink is a symbolic link on the way to a resolved path.
type followedLink struct{ at, target string }

// A finder resolves paths and remembers each result, so that one compilation
// works on one state of the machine.
type finder struct {
	host        Host
	placeholder func(string) bool // may be nil
	seen        map[string]lookResult
	lists       map[string][]fs.DirEntry
	listError   error           // the first failure of list
	holds       map[string]bool // the results of placeholder
}

type lookResult struct {
	mode   fs.FileMode
	target string
	err    error
}

func newFinder(host Host, placeholder func(string) bool) *finder {
	return &finder{
		host: host, placeholder: placeholder,
		seen: make(map[string]lookResult), lists: make(map[string][]fs.DirEntry), holds: make(map[string]bool),
	}
}

func (f *finder) look(p string) lookResult {
	s, ok := f.seen[p]
	if !ok {
		s.mode, s.err = f.host.Lstat(p)
		if s.err == nil && s.mode&fs.ModeSymlink != 0 {
			s.target, s.err = f.host.Readlink(p)
		}
		f.seen[p] = s
	}
	return s
}

// list returns the entries of a directory. A directory that is missing or that the server has no permission
// to list counts as empty: a confined command has no more permissions than the server. After any other failure,
// such as too many open files, the directory may have entries that must be hidden: list sets listError, and
// Bind refuses.
func (f *finder) list(dir string) []fs.DirEntry {
	entries, ok := f.lists[dir]
	if !ok {
		var err error
		entries, err = f.host.ReadDir(dir)
		isEmpty := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)
		if err != nil && !isEmpty && f.listError == nil {
			f.listError = Unenforceable("cannot list %s: %w", dir, err)
		}
		f.lists[dir] = entries
	}
	return entries
}

// find resolves a clean absolute path.
func (f *finder) find(name string) resolvedPath {
	todo := components(name)
	here := resolvedPath{path: "/", mode: fs.ModeDir}
	for len(todo) > 0 {
		component := todo[0]
		todo = todo[1:]
		switch component {
		case "", ".":
			continue
		case "..":
			here.path, here.mode = path.Dir(here.path), fs.ModeDir
			continue
		}
		if !here.mode.IsDir() {
			if f.held(here) {
				return here.missing(append([]string{component}, todo...))
			}
			return here.broken(gapFile, here.path, component, todo)
		}
		next := path.Join(here.path, component)
		s := f.look(next)
		switch {
		case errors.Is(s.err, fs.ErrNotExist):
			if f.held(here) {
				return here.missing(append([]string{component}, todo...))
			}
			return here.broken(gapMissing, next, component, todo)
		case errors.Is(s.err, syscall.ENOTDIR):
			return here.broken(gapFile, here.path, component, todo)
		case s.err != nil:
			return here.broken(gapUnknown, next, component, todo)
		case s.mode&fs.ModeSymlink == 0:
			here.path, here.mode = next, s.mode.Type()
			continue
		}
		here.links = append(here.links, followedLink{next, s.target})
		if len(here.links) > maxLinks {
			return here.broken(gapLoop, next, component, todo)
		}
		if strings.HasPrefix(s.target, "/") {
			here.path, here.mode = "/", fs.ModeDir
		}
		todo = append(components(s.target), todo...)
	}
	if f.held(here) {
		return here.missing(nil)
	}
	return here
}

// held reports whether a place is a placeholder. Nothing exists below a
// placeholder, so it can only be the end of a path.
func (f *finder) held(at resolvedPath) bool {
	if f.placeholder == nil || at.path == "/" || !at.mode.IsDir() && !at.mode.IsRegular() {
		return false
	}
	held, ok := f.holds[at.path]
	if !ok {
		held = f.placeholder(at.path)
		f.holds[at.path] = held
	}
	return held
}

// missing treats an existing place as missing.
func (p resolvedPath) missing(rest []string) resolvedPath {
	dir, name := path.Split(p.path)
	at := p.path
	p.path = path.Clean(dir)
	return p.broken(gapMissing, at, name, rest)
}

// broken ends a resolution: the rest of the path is taken literally.
func (p resolvedPath) broken(why gap, at, component string, rest []string) resolvedPath {
	p.gap, p.gapAt = why, at
	p.path = path.Join(p.path, component, strings.Join(rest, "/"))
	return p
}

func components(p string) []string { return strings.Split(p, "/") }

// within reports whether p is dir or lies below it. Both are clean.
func within(p, dir string) bool {
	return dir == "/" || p == dir || len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

// below is within without equality.
func below(p, dir string) bool { return p != dir && within(p, dir) }
