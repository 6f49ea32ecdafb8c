//go:build unix

package homeserver

import (
	"io/fs"
	"os"
	"syscall"
)

// noFollow makes it an error to open a link.
const noFollow = syscall.O_NOFOLLOW

// detached starts a server in a session of its own: the signals of the terminal,
// and of the end of the login, do not reach it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// open reports whether other users have access to a directory.
func open(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
