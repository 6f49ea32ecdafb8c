package confined

import (
	"context"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
)

// unchanged reports whether a binding still is about the same files. If a disk
// does not respond, it ends with ctx.
func (p *Pool) unchanged(ctx context.Context, b *binding) (bool, error) {
	print, err := proc.Abandonable(ctx, func() (string, error) { return p.fingerprint(b.watch), nil }, func(string) {})
	return print == b.print, err
}

// fingerprint describes the files at the watched paths: the same text means the
// same files. A name that exists only as a placeholder counts as missing,
// because commands start and end without changing the meaning of the rules.
func (p *Pool) fingerprint(watch []sandbox.Watch) string {
	print := make([]byte, 0, 24*len(watch))
	for _, w := range watch {
		var st unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, w.Path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
		if err == nil && w.Absent && p.config.Confiner.Placeholder(w.Path) {
			err = unix.ENOENT
		}
		if errno, ok := err.(unix.Errno); ok {
			print = binary.AppendUvarint(append(print, 0), uint64(errno))
			continue
		}
		print = append(print, 1)
		print = binary.AppendUvarint(print, unix.Mkdev(st.Dev_major, st.Dev_minor))
		print = binary.AppendUvarint(print, st.Ino)
		print = appendTime(print, st.Btime) // inode numbers are reused
		print = binary.AppendUvarint(print, uint64(st.Mode&unix.S_IFMT))
		if w.Content {
			print = appendTime(print, st.Mtime)
			print = appendTime(print, st.Ctime)
			print = binary.AppendUvarint(print, st.Size)
		}
	}
	return string(print)
}

func appendTime(b []byte, t unix.StatxTimestamp) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, t.Sec), uint64(t.Nsec))
}
