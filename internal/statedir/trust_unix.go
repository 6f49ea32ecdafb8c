//go:build unix

package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxDirLinks is how many symbolic links the path of a directory may go through, as in
// the kernel.
const maxDirLinks = 40

// Trusted makes a directory if it is missing and returns its path without links. The files
// in a state directory decide which files are locked or removed and which processes are
// killed. So it is an error if a user other than this one and root can change or replace the
// directory, or owns a link on its path.
//
// A directory that the user's own group may change is accepted: if the umask is 002,
// each user has a group of their own.
func Trusted(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	here, links := "/", 0
	for todo := strings.Split(name, "/"); len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		if part == "" || part == "." {
			continue
		}
		if err := checkTrust(here, true); err != nil {
			return "", err
		}
		next := filepath.Join(here, part)
		info, err := lstatOrMake(next)
		switch {
		case err != nil:
			return "", fmt.Errorf("%w; %w", err, ErrUnusable)
		case info.IsDir():
			here = next
			continue
		case info.Mode().Type() != fs.ModeSymlink:
			return "", &fs.PathError{Op: "open", Path: next, Err: syscall.ENOTDIR}
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; !trustedOwner(uid) {
			return "", fmt.Errorf("the link %s belongs to user %d: %w", next, uid, ErrUnusable)
		}
		if links++; links > maxDirLinks {
			return "", &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			here = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return here, checkTrust(here, false)
}

// lstatOrMake returns the file information of a name. If nothing exists there, it makes
// a directory first.
func lstatOrMake(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.Lstat(name)
}

// checkTrust refuses a directory in which another user could replace names. For
// directories above the state directory it is enough that users can replace only
// their own files.
func checkTrust(dir string, above bool) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat := info.Sys().(*syscall.Stat_t)
	if !trustedOwner(stat.Uid) {
		return fmt.Errorf("%s belongs to user %d: %w", dir, stat.Uid, ErrUnusable)
	}
	mode := info.Mode()
	open := mode&0o002 != 0 || mode&0o020 != 0 && int(stat.Gid) != os.Getegid()
	if open && !(above && mode&fs.ModeSticky != 0) {
		return fmt.Errorf("other users may change %s (mode %04o): forbid it with `chmod go-w`, or %w", dir, mode.Perm(), ErrUnusable)
	}
	return nil
}

// trustedOwner reports whether a user is this one or root. In a user namespace that does
// not map root, root's files have the number of all unmapped users. It is accepted if / has
// it.
func trustedOwner(uid uint32) bool {
	return int(uid) == os.Geteuid() || uid == 0 || unmapped(uid)
}

// ownDir reports whether name itself is a directory of this user, and not a link.
func ownDir(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir() && int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid()
}
