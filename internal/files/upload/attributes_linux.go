package upload

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// accessList is the attribute with a file's POSIX access list.
const accessList = "system.posix_acl_access"

// A write of package files gives a new file every attribute of the old one, or writes in place. An upload
// cannot write in place, so it requires the owner and the access list, and copies other attributes if it can.

// keepAccess gives the file the access list of the target, or none if the
// target has none. The default list of the directory does not count.
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

// keepAttributes copies the attributes that users and the system's policy have
// set on the target. Capabilities are not copied: a write removes them as well.
func (t *temporary) keepAttributes() {
	way := t.way(t.target)
	names, _ := at.Attributes(func(buf []byte) (int, error) { return unix.Llistxattr(way, buf) })
	for _, name := range names {
		if !strings.HasPrefix(name, "user.") && name != "security.selinux" {
			continue
		}
		if value, err := attribute(way, name); err == nil {
			_ = unix.Fsetxattr(int(t.file.Fd()), name, value, 0)
		}
	}
}

// attribute reads an extended attribute of a file. Links are not followed.
func attribute(way, name string) ([]byte, error) {
	return at.Attribute(func(buf []byte) (int, error) { return unix.Lgetxattr(way, name, buf) })
}
