package upload

import (
	"context"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// maxLinks is how many links a name may lead through, as in the kernel.
const maxLinks = 40

// Direct finds a target with the permissions of this process. Links are followed,
// also a dangling one; the directory must exist.
func Direct(_ context.Context, target string) (*os.File, string, error) {
	if strings.ContainsRune(target, 0) {
		return nil, "", unix.EINVAL
	}
	base := unix.AT_FDCWD // the directory from which a relative target starts
	for range maxLinks {
		dir, name, err := openParent(base, target)
		if base != unix.AT_FDCWD {
			unix.Close(base)
		}
		if err != nil {
			return nil, "", err
		}
		next, err := readLink(dir, name)
		if err != nil {
			unix.Close(dir)
			return nil, "", err
		}
		if next == "" {
			return os.NewFile(uintptr(dir), path.Dir(target)), name, nil
		}
		base, target = dir, next
	}
	if base != unix.AT_FDCWD {
		unix.Close(base)
	}
	return nil, "", unix.ELOOP
}

// openParent opens the directory of a target. A target that can only be a directory
// is refused, as by an open that would create a file.
func openParent(base int, target string) (dir int, name string, err error) {
	parent, name := path.Split(strings.TrimRight(target, "/"))
	if parent == "" && strings.HasPrefix(target, "/") {
		parent = "/"
	}
	if parent == "" {
		parent = "."
	}
	dir, err = at.Openat(base, parent, at.Directory, 0)
	if err != nil {
		return -1, "", err
	}
	if name == "" || name == "." || name == ".." || strings.HasSuffix(target, "/") {
		unix.Close(dir)
		return -1, "", unix.EISDIR
	}
	return dir, name, nil
}

// readLink returns the target of a link, and "" if the name is not a link.
func readLink(dir int, name string) (string, error) {
	text, err := at.ReadLink(dir, name)
	if err == unix.EINVAL || err == unix.ENOENT { // not a link; missing
		return "", nil
	}
	return text, err
}
