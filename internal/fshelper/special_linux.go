package fshelper

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What the kernel shows of itself looks different for each process, and for this
// one it shows what is nobody else's business.

// specialTypes are the file systems that do so.
var specialTypes = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
	unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.NSFS_MAGIC, unix.SELINUX_MAGIC,
	unix.BINFMTFS_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC,
}

// named reports whether a path names one of the directories where they are.
func named(name string) bool {
	name = path.Clean(name)
	return slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool {
		return name == dir || strings.HasPrefix(name, dir+"/")
	})
}

// special reports whether an open file is in one of them. In doubt it is.
func special(file *os.File) bool {
	conn, err := file.SyscallConn()
	if err != nil {
		return true
	}
	result := true
	conn.Control(func(fd uintptr) { result = specialDescriptor(int(fd)) })
	return result
}

func specialDescriptor(fd int) bool {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || slices.Contains(specialTypes, int64(fs.Type)) {
		return true
	}
	if fs.Type != unix.TMPFS_MAGIC { // a devtmpfs calls itself one
		return false
	}
	var buffer [unix.PathMax]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buffer[:])
	return err != nil || named(string(buffer[:n]))
}

// leadsToSpecial reports whether a path leads to one of them. What does not
// exist leads nowhere.
func leadsToSpecial(name string) bool {
	if named(name) {
		return true
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return err == unix.ELOOP // maybe through /proc
	}
	defer unix.Close(fd)
	return specialDescriptor(fd)
}
