package upload

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// accessList is the attribute with a file's POSIX access list.
const accessList = "system.posix_acl_access"

// keepAccess gives the file the access list of the target, or none if that has
// none, whatever the directory would give to new files.
func (t *temporary) keepAccess() error {
	list, err := attribute(t.way(t.target), accessList)
	switch err {
	case nil:
		return unix.Fsetxattr(int(t.file.Fd()), accessList, list, 0)
	case unix.ENODATA:
		if err := unix.Fremovexattr(int(t.file.Fd()), accessList); err != unix.ENODATA {
			return err
		}
	case unix.ENOTSUP:
	default:
		return err
	}
	return nil
}

// keepAttributes copies what users and the system's policy have noted about the
// target. Capabilities do not pass: a write takes them away as well.
func (t *temporary) keepAttributes() {
	way := t.way(t.target)
	size, err := unix.Llistxattr(way, nil)
	if err != nil || size == 0 {
		return
	}
	names := make([]byte, size)
	if size, err = unix.Llistxattr(way, names); err != nil {
		return
	}
	for name := range strings.SplitSeq(string(names[:size]), "\x00") {
		if !strings.HasPrefix(name, "user.") && name != "security.selinux" {
			continue
		}
		if value, err := attribute(way, name); err == nil {
			_ = unix.Fsetxattr(int(t.file.Fd()), name, value, 0)
		}
	}
}

// attribute reads an extended attribute of a file, which is not followed.
func attribute(way, name string) ([]byte, error) {
	value := make([]byte, 256)
	for {
		n, err := unix.Lgetxattr(way, name, value)
		switch err {
		case nil:
			return slices.Clip(value[:n]), nil
		case unix.ERANGE:
			value = make([]byte, 2*len(value))
		default:
			return nil, err
		}
	}
}
