package confined

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/at"
)

// What the kernel shows of itself is different for each process. What it shows of this
// one, its environment for example, is not for a sandbox.

// specialTypes are the file systems where it does so.
var specialTypes = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
	unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.NSFS_MAGIC, unix.SELINUX_MAGIC,
	unix.BINFMTFS_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC,
}

// special are the directories where these file systems are.
var special = []string{"/proc", "/sys", "/dev"}

// screen returns what decides whether this process, which no sandbox confines, may
// serve one request about an open file. What the kernel shows of itself is left to a
// helper; what every sandbox hides is refused.
func (p *Pool) screen() func(fd int) error {
	hidden := p.config.Confiner.Hidden()
	return func(fd int) error {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(fd, &fs); err != nil || slices.Contains(specialTypes, int64(fs.Type)) {
			return files.ErrElsewhere
		}
		real, err := at.PathOf(fd)
		if err != nil { // without a path nothing can be decided
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
