package fshelper

import (
	"context"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
)

// unchanged reports whether a binding still is about the same files. A dead disk
// does not hold it up for longer than ctx.
func (p *Pool) unchanged(ctx context.Context, b *binding) (bool, error) {
	print, err := proc.Abandonable(ctx, func() (string, error) { return p.fingerprint(b.watch), nil }, func(string) {})
	return print == b.print, err
}

// fingerprint says what is at the watched paths: the same text, the same files.
// A name that exists only because a sandbox holds it counts as missing: commands
// come and go without changing what the rules mean.
func (p *Pool) fingerprint(watch []sandbox.Watch) string {
	print := make([]byte, 0, 24*len(watch))
	for _, w := range watch {
		var st unix.Stat_t
		err := unix.Lstat(w.Path, &st)
		if err == nil && w.Absent && p.config.Confiner.Placeholder(w.Path) {
			err = unix.ENOENT
		}
		if errno, ok := err.(unix.Errno); ok {
			print = binary.AppendUvarint(append(print, 0), uint64(errno))
			continue
		}
		print = append(print, 1)
		print = binary.AppendUvarint(print, st.Dev)
		print = binary.AppendUvarint(print, st.Ino)
		print = binary.AppendUvarint(print, uint64(st.Mode&unix.S_IFMT))
		if w.Content {
			print = binary.AppendVarint(print, st.Mtim.Nano())
			print = binary.AppendVarint(print, st.Ctim.Nano())
			print = binary.AppendVarint(print, st.Size)
		}
	}
	return string(print)
}
