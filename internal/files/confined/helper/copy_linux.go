package helper

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/wire"
)

var (
	errCopyDirectory = files.NewError(wire.CodeInvalidRequest, "fs/copy requires recursive: true when sourcePath is a directory")
	errCopyIntoSelf  = files.NewError(wire.CodeInvalidRequest, "fs/copy cannot copy a directory to itself or one of its descendants")
	errCopyKind      = files.NewError(wire.CodeInvalidRequest, "fs/copy only supports regular files, directories, and symlinks")
)

// How much is copied between two checks of the context.
const (
	copyPiece = 32 << 20 // bytes of a file
	copyNames = 512      // names of a directory
)

// Copy copies a file, a link or a directory. It does all the work itself: it checks
// each new name against the rules, and then creates it in the directory that was
// checked.
func (g *guard) Copy(ctx context.Context, source, destination string, recursive bool) error {
	from, err := find(source, innerLinks)
	if err != nil {
		return err
	}
	defer from.close()
	switch {
	case !from.exists():
		return unix.ENOENT
	case from.kind() != unix.S_IFDIR:
		if skipped, err := g.copyEntry(ctx, from, destination); err != nil || !skipped {
			return err
		}
		return errCopyKind
	case !recursive:
		return errCopyDirectory
	}
	to, err := find(destination, allLinks)
	if err != nil {
		return err
	}
	to.close()
	if rest, ok := strings.CutPrefix(to.real, from.real); ok && (rest == "" || rest[0] == '/' || from.real == "/") {
		return errCopyIntoSelf
	}
	if err := g.mayRead(from.real); err != nil {
		return err
	}
	switch {
	case to.exists() && to.kind() != unix.S_IFDIR || to.dangling:
		err = unix.EEXIST
	case to.exists(): // each new name in it is checked
		err = g.mayMerge(to.real)
	default:
		err = g.CreateDirectory(ctx, to.real, true, false)
	}
	if err != nil {
		return err
	}
	return g.copyTree(ctx, from, to.real)
}

// mayMerge checks whether another directory may be copied into an existing one. A
// placeholder does not count as existing.
func (g *guard) mayMerge(real string) error {
	if err := g.mayRead(real); err != nil {
		return err
	}
	if g.judge.Decide(real).Absent {
		return unix.EROFS
	}
	return nil
}

// copyEntry copies anything but a directory, unless it is of a kind that is
// skipped.
func (g *guard) copyEntry(ctx context.Context, from *resolvedPath, destination string) (skipped bool, err error) {
	if err := g.mayRead(from.real); err != nil {
		return false, err
	}
	switch from.kind() {
	case unix.S_IFREG:
		return false, g.copyFile(ctx, from, destination)
	case unix.S_IFLNK:
		return false, g.copyLink(from, destination)
	}
	return true, nil
}

// copyTree copies the content of a directory into another.
func (g *guard) copyTree(ctx context.Context, from *resolvedPath, destination string) error {
	names, err := open(from.magic(), unix.O_RDONLY|unix.O_DIRECTORY, from.real)
	if err != nil {
		return err
	}
	defer names.Close()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		batch, err := names.Readdirnames(copyNames)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range batch {
			if err := g.copyInto(ctx, path.Join(from.real, name), path.Join(destination, name)); err != nil {
				return err
			}
		}
	}
}

// copyInto copies an entry of a directory.
func (g *guard) copyInto(ctx context.Context, source, destination string) error {
	from, err := find(source, noLinks)
	if err != nil {
		return err
	}
	defer from.close()
	switch {
	case !from.exists():
		return unix.ENOENT
	case from.kind() != unix.S_IFDIR:
		_, err := g.copyEntry(ctx, from, destination)
		return err
	}
	if err := g.mayRead(from.real); err != nil {
		return err
	}
	to, err := find(destination, allLinks)
	if err != nil {
		return err
	}
	to.close()
	switch {
	case to.exists() && to.kind() != unix.S_IFDIR || to.dangling:
		return unix.EEXIST
	case to.exists():
		err = g.mayMerge(to.real)
	default:
		err = g.make(to.real, func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o777) })
	}
	if err != nil {
		return err
	}
	return g.copyTree(ctx, from, to.real)
}

// make creates a name in its directory.
func (g *guard) make(real string, how func(dir int, name string) error) error {
	if err := g.mayWrite(real); err != nil {
		return err
	}
	dir, err := find(path.Dir(real), noLinks)
	if err != nil {
		return err
	}
	defer dir.close()
	if !dir.exists() {
		return unix.ENOENT
	}
	return how(dir.fd, path.Base(real))
}

func (g *guard) copyLink(from *resolvedPath, destination string) error {
	target, err := at.ReadLink(from.fd, "")
	if err != nil {
		return err
	}
	to, err := find(destination, innerLinks)
	if err != nil {
		return err
	}
	to.close()
	if to.missing > 1 {
		return g.mayFind(to)
	}
	return g.make(to.real, func(dir int, name string) error { return unix.Symlinkat(target, dir, name) })
}

func (g *guard) copyFile(ctx context.Context, from *resolvedPath, destination string) error {
	to, err := g.toWrite(destination, true)
	if err != nil {
		return err
	}
	defer to.close()
	source, err := open(from.magic(), unix.O_RDONLY, from.real)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := openTarget(to, from.mode, destination)
	if err != nil {
		return err
	}
	defer target.Close()
	old, err := target.Stat()
	if err != nil {
		return err
	}
	if now, err := source.Stat(); err != nil || os.SameFile(now, old) {
		return err // the same file
	}
	if old.Mode().IsRegular() {
		// Like a command inside, a request cannot make a file that runs with the rights of
		// its owner.
		if err := unix.Fchmod(int(target.Fd()), from.mode&0o1777); err != nil {
			return err
		}
		if err := target.Truncate(0); err != nil {
			return err
		}
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := io.CopyN(target, source, copyPiece); err == io.EOF {
			return target.Close()
		} else if err != nil {
			return err
		}
	}
}

// openTarget opens a file to copy to, without truncating it.
func openTarget(to *resolvedPath, mode uint32, name string) (*os.File, error) {
	switch {
	case !to.exists():
		return makeFile(to.real, 0, mode&0o777, name)
	case to.kind() == unix.S_IFREG || to.kind() == unix.S_IFCHR:
		return open(to.magic(), unix.O_WRONLY|unix.O_NONBLOCK, name)
	}
	return nil, notFile(name)
}
