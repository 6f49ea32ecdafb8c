//go:build unix

package settings

import (
	"io/fs"
	"os"
	"syscall"
)

// trusted reports whether a file belongs to this user or to root.
func trusted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
