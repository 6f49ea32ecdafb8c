package files

import (
	"bytes"
	"context"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// A listing reads the names in a directory in the kernel's order, a buffer at
// a time.
type listing struct {
	fd   int
	buf  []byte
	rest []byte // the part of buf that was not returned yet
}

// Sizes of listing buffers: of a walk or a list, and of a recursion with one
// listing per level of a tree.
const (
	listBuffer = 64 << 10
	treeBuffer = 8 << 10
)

// list opens a directory for reading. Without follow it must not be a link.
func (p nameAt) list(follow bool, buffer int) (*listing, error) {
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := at.Openat(p.dir, p.name, flags, 0)
	if err != nil {
		return nil, err
	}
	return &listing{fd: fd, buf: make([]byte, buffer)}, nil
}

func (l *listing) close() { unix.Close(l.fd) }

// rewind restarts the listing.
func (l *listing) rewind() error {
	l.rest = nil
	_, err := unix.Seek(l.fd, 0, 0)
	return err
}

// next returns the next name and its type, DT_UNKNOWN if the file system does
// not report it. The name is valid until the next call; nil is the end.
func (l *listing) next(ctx context.Context) (name []byte, kind byte, err error) {
	for {
		if len(l.rest) == 0 {
			if err := cancelled(ctx); err != nil {
				return nil, 0, err
			}
			var n int
			err := at.Retry(func() (err error) {
				n, err = unix.Getdents(l.fd, l.buf)
				return err
			})
			if err == unix.ENOENT { // the directory was removed meanwhile
				return nil, 0, nil
			}
			if err != nil || n == 0 {
				return nil, 0, err
			}
			l.rest = l.buf[:n]
		}
		name, kind, l.rest = parseDirent(l.rest)
		if len(name) > 0 && string(name) != "." && string(name) != ".." {
			return name, kind, nil
		}
	}
}

// parseDirent takes one struct linux_dirent64 off buf: inode, offset, length of
// the record, type, NUL-terminated name. If the record is malformed, the rest of
// buf is dropped.
func parseDirent(buf []byte) (name []byte, kind byte, rest []byte) {
	const header = 8 + 8 + 2 + 1
	if len(buf) < header {
		return nil, 0, nil
	}
	size := int(binary.NativeEndian.Uint16(buf[16:]))
	if size < header || size > len(buf) {
		return nil, 0, nil
	}
	name = buf[header:size]
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	return name, buf[18], buf[size:]
}

// typeOf completes the type of a name in the listed directory. With follow, the
// type of a link is the type of its target, and a dangling link is an error.
func (l *listing) typeOf(name string, kind byte, follow bool) (byte, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	switch {
	case kind == unix.DT_LNK && follow:
		flags = 0
	case kind != unix.DT_UNKNOWN:
		return kind, nil
	}
	var st unix.Stat_t
	if err := at.Retry(func() error { return unix.Fstatat(l.fd, name, &st, flags) }); err != nil {
		return 0, err
	}
	kind = byte(st.Mode >> 12 & 0o17) // as IFTODT
	if kind == unix.DT_LNK && follow {
		return l.typeOf(name, kind, true)
	}
	return kind, nil
}
