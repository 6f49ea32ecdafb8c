package at

import (
	"bytes"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// SetOwner gives a file to a user and a group, if it is not theirs already.
func SetOwner(fd int, uid, gid uint32) error {
	var own unix.Stat_t
	if err := unix.Fstat(fd, &own); err != nil || own.Uid == uid && own.Gid == gid {
		return err
	}
	return unix.Fchown(fd, int(uid), int(gid))
}

// errCapability means that a file has capabilities; the kernel removes them when
// the file is written.
var errCapability = errors.New("capabilities of a file are not copied")

// CopyAttributes makes the extended attributes of to, including ACLs and
// labels, equal to those of from. It fails if it cannot set or remove one.
func CopyAttributes(from, to int) error {
	wanted, err := attributesOf(from)
	if err != nil {
		return err
	}
	given, err := attributesOf(to)
	if err != nil {
		return err
	}
	for _, name := range wanted {
		if name == "security.capability" {
			return errCapability
		}
		value, err := attributeOf(from, name)
		if err != nil {
			return err
		}
		if slices.Contains(given, name) {
			if own, err := attributeOf(to, name); err == nil && bytes.Equal(own, value) {
				continue // also a label that this process could not set
			}
		}
		if err := unix.Fsetxattr(to, name, value, 0); err != nil {
			return err
		}
	}
	for _, name := range given {
		if slices.Contains(wanted, name) {
			continue
		}
		if err := unix.Fremovexattr(to, name); err != nil {
			return err
		}
	}
	return nil
}

func attributesOf(fd int) ([]string, error) {
	return Attributes(func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) })
}

func attributeOf(fd int, name string) ([]byte, error) {
	return Attribute(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
}

// Attributes returns the names of extended attributes that a call like flistxattr puts into a
// buffer. A file system without attributes is not an error.
func Attributes(list func([]byte) (int, error)) ([]string, error) {
	all, err := Attribute(list)
	if err == unix.EOPNOTSUPP {
		return nil, nil
	}
	var names []string
	for name := range bytes.SplitSeq(all, []byte{0}) {
		if len(name) > 0 {
			names = append(names, string(name))
		}
	}
	return names, err
}

// maxAttributes is the kernel's limit for the names of all attributes of a
// file together, and for one value.
const maxAttributes = 64 << 10

// Attribute returns the data that a call like fgetxattr puts into a buffer that is
// large enough.
func Attribute(get func([]byte) (int, error)) ([]byte, error) {
	buf := make([]byte, 256)
	n, err := get(buf)
	if err == unix.ERANGE {
		buf = make([]byte, maxAttributes)
		n, err = get(buf)
	}
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}
