package files

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// Limits of the removal of a tree.
const (
	heldLevels  = 32 // directories open at a time, in a tree of any depth
	emptyRounds = 16 // how often a directory is read again because new entries appeared in it
)

// Remove removes a file, a link itself or a directory. Links inside a tree are
// removed, never entered, even if they appear during the removal.
func (Direct) Remove(ctx context.Context, path string, how RemoveHow) error {
	if how.Recursive && !how.Follow {
		return failed(errRecursiveNoFollow)
	}
	path, err := clean(path, how.Follow)
	switch {
	case err != nil:
		return failed(err)
	case path == "/" && how.Follow:
		return failed(unix.EBUSY)
	case path == "/":
		return failed(errNoEntry)
	}
	p, err := find(path, how.Follow)
	if err == nil {
		defer p.close()
		err = p.remove(ctx, how)
	}
	if err == unix.ENOENT && how.Force {
		return nil
	}
	return failed(err)
}

func (p nameAt) remove(ctx context.Context, how RemoveHow) error {
	if !how.Follow {
		var st unix.Stat_t
		if err := unix.Fstatat(p.dir, p.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if kind(st) == unix.S_IFLNK { // a link that appears after this check is removed, not followed
			return ErrSymlink
		}
	}
	isDir, err := p.unlink(unix.DT_UNKNOWN)
	if !isDir {
		return err
	}
	if !how.Recursive {
		return unlinkat(p.dir, p.name, unix.AT_REMOVEDIR)
	}
	return p.removeTree(ctx)
}

// unlink removes anything but a directory, and reports whether it is one.
func (p nameAt) unlink(dirent byte) (isDir bool, err error) {
	if dirent == unix.DT_DIR {
		return true, nil
	}
	err = unlinkat(p.dir, p.name, 0)
	if err != unix.EISDIR && err != unix.EPERM && err != unix.EROFS {
		return false, err
	}
	var st unix.Stat_t
	found := unix.Fstatat(p.dir, p.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.EROFS && found == unix.ENOENT: // the kernel reported EROFS before it looked for the name
		return false, found
	case err != unix.EROFS && found == nil && kind(st) == unix.S_IFDIR:
		return true, nil
	}
	return false, err
}

func unlinkat(dir int, name string, flags int) error {
	return at.Retry(func() error { return unix.Unlinkat(dir, name, flags) })
}

// A level is a directory whose content is being removed. For levels far above
// the current one only the identity is kept.
type level struct {
	name   string
	names  *listing    // nil: closed
	self   unix.Stat_t // set when names was closed
	rounds int
}

// removal is the removal of a tree in progress: the directories from its root
// down to the current one.
type removal struct {
	root   nameAt
	levels []*level
}

func (p nameAt) removeTree(ctx context.Context) error {
	r := &removal{root: p}
	defer r.close()
	if err := r.enter(p); err != nil {
		return err
	}
	for len(r.levels) > 0 {
		top := r.levels[len(r.levels)-1]
		name, kind, err := top.names.next(ctx)
		if err == nil && name == nil {
			err = r.leave()
		} else if err == nil {
			inside := nameAt{top.names.fd, string(name)}
			var isDir bool
			if isDir, err = inside.unlink(kind); isDir {
				err = r.enter(inside)
			}
		}
		if err != nil && err != unix.ENOENT { // another process may be removing the tree, too
			return err
		}
	}
	return nil
}

// enter enters a directory. An unreadable directory may still be empty.
func (r *removal) enter(p nameAt) error {
	names, err := p.list(false, treeBuffer)
	if err == unix.ENOTDIR || err == unix.ELOOP { // it is not a directory any more
		return unlinkat(p.dir, p.name, 0)
	}
	if err != nil {
		if unlinkat(p.dir, p.name, unix.AT_REMOVEDIR) == nil {
			return nil
		}
		return err
	}
	r.levels = append(r.levels, &level{name: p.name, names: names})
	if far := len(r.levels) - 1 - heldLevels; far >= 0 {
		return r.levels[far].letGo()
	}
	return nil
}

// leave removes the current directory, which has been emptied, and goes up. If
// it is not empty, leave stays and lists it again.
func (r *removal) leave() error {
	last := len(r.levels) - 1
	top, parent := r.levels[last], r.root.dir
	if last > 0 {
		above := r.levels[last-1]
		if err := above.takeBack(top.names.fd); err != nil {
			return err
		}
		parent = above.names.fd
	}
	err := unlinkat(parent, top.name, unix.AT_REMOVEDIR)
	if (err == unix.ENOTEMPTY || err == unix.EEXIST) && top.rounds < emptyRounds {
		top.rounds++
		return top.names.rewind()
	}
	if err == nil || err == unix.ENOENT {
		top.names.close()
		r.levels = r.levels[:last]
	}
	return err
}

func (l *level) letGo() error {
	if l.names == nil {
		return nil
	}
	err := unix.Fstat(l.names.fd, &l.self)
	l.names.close()
	l.names = nil
	return err
}

// takeBack opens a level again from the directory below it. If that directory
// was moved elsewhere meanwhile, nothing around its new place is touched.
func (l *level) takeBack(below int) error {
	if l.names != nil {
		return nil
	}
	names, err := nameAt{below, ".."}.list(false, treeBuffer)
	if err == unix.ENOENT {
		return unix.ESTALE
	}
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(names.fd, &st); err != nil || !at.Same(st, l.self) {
		names.close()
		return unix.ESTALE
	}
	l.names = names
	return nil
}

func (r *removal) close() {
	for _, l := range r.levels {
		if l.names != nil {
			l.names.close()
		}
	}
}
