package confined

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/at"
)

// Files of the kernel, such as /proc/self/environ, are different for each process.
// Those of this process are not for a sandbox.

// specialTypes are the file systems with such files.
var specialTypes = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
	unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.NSFS_MAGIC, unix.SELINUX_MAGIC,
	unix.BINFMTFS_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC,
}

// special are the directories with these file systems.
var special = []string{"/proc", "/sys", "/dev"}

// screen returns a function that decides whether this process, which no sandbox
// confines, may serve a request about an open file. Files of the kernel are left to
// a helper; paths that every sandbox hides are refused.
func (p *Pool) screen() func(fd int) error {
	hidden := p.config.Confiner.Hidden()
	return func(fd int) error {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(fd, &fs); err != nil || slices.Contains(specialTypes, int64(fs.Type)) {
			return files.ErrElsewhere
		}
		real, err := at.PathOf(fd)
		if err != nil { // without a path no decision is possible
			return files.ErrElsewhere
		}
		switch {
		case among(real, special):
			return files.ErrElsewhere
		case among(real, hidden), among(strings.TrimSuffix(real, at.Deleted), hidden):
			return unix.EACCES
		}
		return nil
	}
}

// among reports whether a path is one of the given ones, or below one.
func among(path string, places []string) bool {
	return slices.ContainsFunc(places, func(place string) bool {
		return path == place || place == "/" || strings.HasPrefix(path, place+"/")
	})
}
