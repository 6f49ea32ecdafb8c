package copy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/tetherexec/tether/client/files"
)

// An item is one thing to be made at the destination.
type item struct {
	from, to string
	size     int64
	mode     fs.FileMode // permissions of the source
	hasMode  bool        // they are known
	modified time.Time
	link     string // the target of a link, relative to its directory
	regular  bool   // for a copy on the server: a regular file, which can be copied again after a lost answer
}

// A plan is all that is to be made, in this order.
type plan struct {
	directories []item
	files       []item
	links       []item
}

// Errors of a path.
var (
	ErrIsDirectory      = errors.New("is a directory")    // a file was expected
	ErrMissingDirectory = errors.New("no such directory") // the destination must be a directory and does not exist

	errNotDirectory = errors.New("not a directory")
	errNotRegular   = errors.New("neither a file nor a directory")
	errLoop         = errors.New("the link leads to a directory that contains it")
)

// plan reads the sources. A source that cannot be copied is reported and left out.
func (c *copier) plan(ctx context.Context) (*plan, error) {
	destination, into, err := c.findDestination(ctx)
	if err != nil {
		return nil, err
	}
	p := new(plan)
	for _, s := range c.Sources {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		from, to := s.Path, destination
		if s.Remote {
			if from, err = c.remotePath(s.Path); err != nil {
				return nil, err
			}
		}
		if into {
			to = c.join(to, lastElement(from))
		}
		switch {
		case s.Remote && c.Destination.Remote && (c.Preserve || c.Excluded != nil):
			err = c.planOnServer(ctx, p, from, to)
		case s.Remote && c.Destination.Remote:
			whole := item{from: from, to: to}
			if info, err := c.files.Stat(ctx, from); err == nil && info.Mode().IsRegular() {
				whole.size, whole.regular = info.Size(), !info.IsLink()
			}
			p.files = append(p.files, whole) // errors show when it is copied
		case s.Remote:
			err = c.planDownload(ctx, p, from, to)
		default:
			err = c.planUpload(p, from, to)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// findDestination returns the path of the destination, and whether the sources go into
// it.
func (c *copier) findDestination(ctx context.Context) (name string, into bool, err error) {
	name = c.Destination.Path
	var info fs.FileInfo
	if c.Destination.Remote {
		if name, err = c.remotePath(name); err != nil {
			return "", false, err
		}
		info, err = c.files.Stat(ctx, name)
	} else {
		info, err = os.Stat(name)
	}
	isDir := err == nil && info.IsDir()
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", false, fmt.Errorf("%s: %s", c.Destination, Reason(err))
	case err != nil && (len(c.Sources) > 1 || strings.HasSuffix(name, "/")):
		return "", false, fmt.Errorf("%s: %w", c.Destination, ErrMissingDirectory)
	case !isDir && (len(c.Sources) > 1 || strings.HasSuffix(name, "/")):
		return "", false, fmt.Errorf("%s: %w", c.Destination, errNotDirectory)
	case isDir && c.Stream:
		return "", false, fmt.Errorf("%s: %w", c.Destination, ErrIsDirectory)
	}
	return name, isDir, nil
}

// remotePath makes a path of the server's machine absolute.
func (c *copier) remotePath(name string) (string, error) { return RemotePath(c.client.Info(), name) }

// join appends to a path of the destination.
func (c *copier) join(dir, name string) string {
	if c.Destination.Remote {
		return Join(dir, name)
	}
	return filepath.Join(dir, name)
}

func Join(dir, name string) string {
	return strings.TrimRight(dir, "/") + "/" + name
}

// lastElement is the name that a source gets in a directory. DIR/. stands for the content of DIR, and
// so do paths that end without a name, such as / and "..".
func lastElement(name string) string {
	trimmed := strings.TrimRight(filepath.ToSlash(name), "/")
	switch last := path.Base(trimmed); {
	case trimmed == "", last == ".", last == "..":
		return "."
	default:
		return last
	}
}

// planUpload looks at a local file or tree. The protocol cannot make links: their targets are copied.
func (c *copier) planUpload(plan *plan, from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		c.leftOut(from, err)
		return nil
	}
	c.planLocal(plan, from, to, info, nil, nil)
	return nil
}

// planLocal plans the file or directory from. inside is its path below the source, and above has
// the directories between them.
func (c *copier) planLocal(plan *plan, from, to string, info fs.FileInfo, inside []string, above []fs.FileInfo) {
	made := item{from: from, to: to, size: info.Size(), mode: info.Mode().Perm(), hasMode: true, modified: info.ModTime()}
	switch {
	case info.Mode().IsRegular():
		if c.Stream {
			made.mode, made.hasMode = 0, false // ignore the permissions of a temporary file
		}
		plan.files = append(plan.files, made)
		return
	case !info.IsDir():
		c.leftOut(from, errNotRegular)
		return
	}
	for _, a := range above {
		if os.SameFile(a, info) {
			c.leftOut(from, errLoop)
			return
		}
	}
	plan.directories = append(plan.directories, made)
	entries, err := os.ReadDir(from)
	if err != nil {
		c.leftOut(from, err)
		return
	}
	above = append(above[:len(above):len(above)], info)
	for _, e := range entries {
		name, below := filepath.Join(from, e.Name()), append(inside[:len(inside):len(inside)], e.Name())
		if c.excludes(below, false) {
			continue // also if Stat would fail
		}
		entry, err := os.Stat(name)
		if err != nil {
			c.leftOut(name, err)
			continue
		}
		if !c.excludes(below, entry.IsDir()) {
			c.planLocal(plan, name, Join(to, e.Name()), entry, below, above)
		}
	}
}

// planDownload looks at a file or tree of the server's machine.
func (c *copier) planDownload(ctx context.Context, plan *plan, from, to string) error {
	info, err := c.files.Stat(ctx, from)
	if err == nil && info.IsDir() {
		var root string
		if root, err = c.files.Canonical(ctx, from); err == nil {
			t := treeDownload{c, plan, root, to}
			return t.directory(ctx, info, from, root, to, nil)
		}
	}
	if err != nil {
		return c.tolerate(ctx, from, err)
	}
	if !info.Mode().IsRegular() {
		return c.tolerate(ctx, from, errNotRegular)
	}
	plan.files = append(plan.files, remoteItem(info, from, to))
	return nil
}

// remoteItem is the item for a path of the server's machine.
func remoteItem(info files.FileInfo, from, to string) item {
	it := item{from: from, to: to, size: info.Size(), modified: info.ModTime()}
	it.mode, it.hasMode = info.Permissions()
	return it
}

// tolerate reports a remote file that is left out. It returns the error if the session is lost.
func (c *copier) tolerate(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if IsFatal(err) {
		return err
	}
	c.leftOut(name, err)
	return nil
}

// A treeDownload plans the copy of one remote tree.
type treeDownload struct {
	*copier
	plan *plan
	root string // without links
	to   string
}

// directory plans one directory. real is its path without links, inside its path below the
// source.
func (t treeDownload) directory(ctx context.Context, info files.FileInfo, from, real, to string, inside []string) error {
	t.plan.directories = append(t.plan.directories, remoteItem(info, from, to))
	entries, err := List(ctx, t.files, from)
	if err != nil {
		return t.tolerate(ctx, from, err)
	}
	for _, e := range entries {
		name, target := Join(from, e.Name), filepath.Join(to, e.Name)
		below := append(inside[:len(inside):len(inside)], e.Name)
		switch {
		case t.excludes(below, e.Err == nil && e.Info.IsDir()):
		case e.Err == nil && !filepath.IsLocal(e.Name):
			e.Err = errors.New("the name is not valid on this system")
			fallthrough
		case e.Err != nil:
			err = t.tolerate(ctx, name, e.Err)
		case e.Info.IsLink():
			err = t.linkTo(ctx, e, name, real, target, below)
		case e.Info.IsDir():
			err = t.directory(ctx, e.Info, name, Join(real, e.Name), target, below)
		default:
			err = t.file(ctx, e, name, target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t treeDownload) file(ctx context.Context, e Entry, from, to string) error {
	if !e.Info.Mode().IsRegular() {
		return t.tolerate(ctx, from, errNotRegular)
	}
	t.plan.files = append(t.plan.files, remoteItem(e.Info, from, to))
	return nil
}

// linkTo plans a link. A link within the tree stays a link to its final target, because the
// protocol does not report its text. For other links, the target is copied.
func (t treeDownload) linkTo(ctx context.Context, e Entry, from, above, to string, at []string) error {
	real, err := t.files.Canonical(ctx, from)
	if err != nil {
		return t.tolerate(ctx, from, err)
	}
	if inside, ok := below(t.root, real); ok {
		text, err := filepath.Rel(filepath.Dir(to), filepath.Join(t.to, filepath.FromSlash(inside)))
		if err != nil {
			return t.tolerate(ctx, from, err)
		}
		t.plan.links = append(t.plan.links, item{from: from, to: to, link: text})
		return nil
	}
	if !e.Info.IsDir() {
		return t.file(ctx, e, from, to)
	}
	if _, loop := below(real, above); loop {
		return t.tolerate(ctx, from, errLoop)
	}
	outside := treeDownload{t.copier, t.plan, real, to}
	return outside.directory(ctx, e.Info, from, real, to, at)
}

// below reports whether a path is the directory or in it, and returns the path inside.
func below(dir, name string) (inside string, ok bool) {
	inside, ok = strings.CutPrefix(name, strings.TrimRight(dir, "/"))
	if !ok || inside != "" && inside[0] != '/' {
		return "", false
	}
	return strings.TrimLeft(inside, "/"), true
}
