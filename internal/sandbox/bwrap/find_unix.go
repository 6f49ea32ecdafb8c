//go:build unix

package bwrap

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ownerTrusted reports whether a file belongs to root or to this user. In a
// user namespace without root, files of root seem to belong to user 65534
// (nobody).
func ownerTrusted(info fs.FileInfo) bool {
	const nobody = 65534
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid() || st.Uid == nobody && rootUnmapped())
}

// rootUnmapped reports whether the user namespace of this process has no user
// 0.
func rootUnmapped() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "0" {
			return false
		}
	}
	return true
}
