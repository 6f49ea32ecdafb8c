package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/wire"
)

// Supported says whether this system has uploads.
const Supported = true

// A temporary is a file beside its target. No path is used after it was opened:
// all names are names in dir.
type temporary struct {
	file    *os.File
	hidden  *at.Temporary // gives the file its name
	dir     *os.File
	name    string
	target  string
	journal *Journal
}

// newTemporary makes a file beside the target. It takes over dir, also if it fails.
func newTemporary(dir *os.File, target string, journal *Journal) (_ *temporary, err error) {
	t := &temporary{dir: dir, name: tempName(), target: target, journal: journal}
	defer func() {
		if err != nil {
			dir.Close()
		}
	}()
	if target == "" || target == "." || target == ".." || strings.ContainsAny(target, "/\x00") {
		return nil, unix.EINVAL // it would be outside of dir
	}
	old, err := t.replaced()
	if err != nil {
		return nil, err
	}
	path, err := at.PathOf(t.at())
	if err != nil {
		return nil, err
	}
	if err := journal.add(path, t.name); err != nil {
		return nil, err
	}
	if t.hidden, err = at.NewNamed(t.at(), t.name, 0o600); err != nil {
		return nil, errors.Join(err, journal.done(t.name))
	}
	pointFile.Passed()
	t.file = os.NewFile(uintptr(t.hidden.Fd), t.name)
	if old != nil {
		err = t.tryOwner(old) // fail now rather than after the last byte
	}
	if err != nil {
		return nil, errors.Join(err, t.remove())
	}
	return t, nil
}

func (t *temporary) at() int { return int(t.dir.Fd()) }

// way returns a path to a name in dir, for calls that take no directory.
func (t *temporary) way(name string) string {
	return at.ProcPath(t.at()) + "/" + name
}

// replaced returns the status of the file that will be replaced, nil if there is
// none. It must be a file that this user could write.
func (t *temporary) replaced() (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(t.at(), t.target, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		return nil, unix.EISDIR
	case unix.S_IFLNK: // Place has followed the links that were there
		return nil, refuse(ErrChanged, "the target was replaced by a link")
	default:
		return nil, refuse(ErrNotRegular, "only a file can be replaced by an upload")
	}
	if err := unix.Faccessat(t.at(), t.target, unix.W_OK, unix.AT_EACCESS); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, &Error{worded{err}, wire.CodeInvalidRequest}
		}
		return nil, err
	}
	return &st, nil
}

// prepare gives the file the properties of the old one, or those of new files, and
// checks that it was not changed from outside. If the rename does not follow, hide
// must.
func (t *temporary) prepare(p wire.UploadOpenParams) (err error) {
	if err := t.untouched(p.Size); err != nil {
		return err
	}
	old, err := t.replaced()
	if err != nil {
		return err
	}
	var mode uint32
	switch {
	case old != nil:
		if err := t.keep(old); err != nil {
			return err
		}
		// As after a write, the set-id bits are gone.
		mode = old.Mode & 0o777
	case p.Mode != nil:
		mode = *p.Mode
	default:
		if mode, err = t.newMode(); err != nil {
			return err
		}
	}
	return unix.Fchmod(int(t.file.Fd()), mode)
}

// untouched checks that the name still leads to the file, with all its bytes.
func (t *temporary) untouched(size uint64) error {
	var open, named unix.Stat_t
	if err := unix.Fstat(int(t.file.Fd()), &open); err != nil {
		return err
	}
	err := unix.Fstatat(t.at(), t.name, &named, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && err != unix.ENOENT {
		return err
	}
	if err != nil || !at.Same(open, named) || uint64(open.Size) != size {
		return refuse(ErrChanged, "the temporary file was removed or replaced, or has another size")
	}
	return nil
}

// newMode finds out the mode of a new file here, which depends on the umask and on
// the directory.
func (t *temporary) newMode() (uint32, error) {
	f, err := at.NewNamed(t.at(), t.name+modeSuffix, 0o666)
	if err != nil {
		return 0, err
	}
	defer unix.Close(f.Fd)
	var st unix.Stat_t
	err = errors.Join(unix.Fstat(f.Fd, &st), f.Remove())
	return st.Mode & 0o777, err
}

// tryOwner checks whether the file can be given to the owner of the old one.
func (t *temporary) tryOwner(old *unix.Stat_t) error {
	var own unix.Stat_t
	if err := unix.Fstat(int(t.file.Fd()), &own); err != nil {
		return err
	}
	if err := t.keepOwner(old); err != nil {
		return err
	}
	return t.keepOwner(&own)
}

func (t *temporary) keepOwner(old *unix.Stat_t) error {
	if err := at.SetOwner(int(t.file.Fd()), old.Uid, old.Gid); err != nil {
		return refuse(ErrOwner, "user %d, group %d: %v", old.Uid, old.Gid, worded{err})
	}
	return nil
}

// keep gives the file the owner and the access list of the old one, and its extended
// attributes as far as this user may set them.
func (t *temporary) keep(old *unix.Stat_t) error {
	if err := t.keepOwner(old); err != nil {
		return err
	}
	if err := t.keepAccess(); err != nil {
		return fmt.Errorf("keep the access list: %w", err)
	}
	t.keepAttributes()
	return nil
}

// hide makes the file private again after prepare.
func (t *temporary) hide() error { return unix.Fchmod(int(t.file.Fd()), 0o600) }

// rename moves the file to its target and ends the upload.
func (t *temporary) rename() error {
	if err := t.hidden.Replace(t.target); err != nil {
		return err
	}
	pointMoved.Passed()
	t.syncDir()
	t.moved()
	return nil
}

// moved ends the upload of a file that is at its target. Errors change nothing: its bytes are on the disk.
func (t *temporary) moved() {
	t.file.Close()
	t.dir.Close()
	_ = t.journal.done(t.name)
}

// reopenTemporary returns a file that another program has made.
func reopenTemporary(dir, file *os.File, name, target string, journal *Journal) *temporary {
	t := &temporary{file: file, dir: dir, name: name, target: target, journal: journal}
	t.hidden = at.Named(t.at(), int(file.Fd()), name)
	journal.claim(name)
	_ = unix.Unlinkat(t.at(), name+modeSuffix, 0) // of a newMode that was interrupted
	return t
}

// isTarget reports whether the file is at its target.
func (t *temporary) isTarget() bool {
	var open, named unix.Stat_t
	return unix.Fstat(int(t.file.Fd()), &open) == nil &&
		unix.Fstatat(t.at(), t.target, &named, unix.AT_SYMLINK_NOFOLLOW) == nil && at.Same(open, named)
}

// syncDir syncs the new name to the disk, if the directory can be read. After a
// power cut the target has all of its old content or all of the new one anyway.
func (t *temporary) syncDir() {
	fd, err := unix.Openat(t.at(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = unix.Fsync(fd)
}

// remove removes the file.
func (t *temporary) remove() error {
	defer t.dir.Close()
	defer t.file.Close()
	if err := t.hidden.Remove(); err != nil {
		return err
	}
	return t.journal.done(t.name)
}

// removeLeft removes a temporary file of a server that is gone, and a file of
// newMode that it may have left. No component of dir may be a link: it was recorded
// without links.
func removeLeft(dir, name string) error {
	fd, err := at.Open(unix.AT_FDCWD, dir, at.Directory)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		return nil // the directory is gone
	default:
		return fmt.Errorf("%s: %w", dir, err)
	}
	defer unix.Close(fd)
	for _, left := range []string{name, name + modeSuffix} {
		if err := unix.Unlinkat(fd, left, 0); err != nil && err != unix.ENOENT {
			return fmt.Errorf("%s/%s: %w", dir, left, err)
		}
	}
	return nil
}
