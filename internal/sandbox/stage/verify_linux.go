package stage

import (
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// verify makes sure that the sandbox is as planned. If a directory was
// replaced by a link while the sandbox was built, verify fails.
func (s *Config) verify() error {
	if s.Confined {
		if err := verifyPrivileges(); err != nil {
			return err
		}
	}
	for i := range s.Mounts {
		if err := s.Mounts[i].verify(); err != nil {
			return fmt.Errorf("%s: %w", s.Mounts[i].Path, err)
		}
	}
	return nil
}

func verifyPrivileges() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("look at the capabilities: %w", err)
	}
	for _, set := range sets {
		if set.Effective|set.Permitted|set.Inheritable != 0 {
			return fmt.Errorf("capabilities are left: %#x", sets)
		}
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if n, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && n != 0 {
			return fmt.Errorf("capability %d could be gained", c)
		}
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || n != 1 {
		return fmt.Errorf("new privileges are possible (%d, %v)", n, err)
	}
	const filtered = 2 // SECCOMP_MODE_FILTER
	if n, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil || n != filtered {
		return fmt.Errorf("there is no system call filter (%d, %v)", n, err)
	}
	return nil
}

func (m *Mount) verify() error {
	fd, err := openNoLinks(m.Path)
	if err == unix.EACCES && blockedByForeignDir(m.Path) {
		return nil // the command cannot get there either
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO, &st); err != nil {
		return err
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return fmt.Errorf("nothing is mounted there")
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if m.ReadOnly && fs.Flags&unix.ST_RDONLY == 0 {
		return fmt.Errorf("it can be written")
	}
	switch m.Kind {
	case MountBind:
		if unix.Mkdev(st.Dev_major, st.Dev_minor) != m.Dev || st.Ino != m.Ino {
			return fmt.Errorf("it is not what was there when the sandbox was planned")
		}
	case MountMask, MountDev:
		if fs.Type != unix.TMPFS_MAGIC {
			return fmt.Errorf("it is not in memory")
		}
	case MountProc:
		if fs.Type != unix.PROC_SUPER_MAGIC {
			return fmt.Errorf("it is not a procfs")
		}
	}
	return nil
}

// Identify opens the file or directory that a bind of path shows inside
// (O_PATH), and fills in its device and inode numbers.
func (m *Mount) Identify(path string) (*os.File, error) {
	fd, err := openNoLinks(path)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	m.Dev, m.Ino, m.Directory = st.Dev, st.Ino, st.Mode&unix.S_IFMT == unix.S_IFDIR
	return os.NewFile(uintptr(fd), path), nil
}

// openNoLinks opens a path with O_PATH. The path must not lead through symbolic
// links.
func openNoLinks(path string) (int, error) {
	return at.Open(unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC)
}

// blockedByForeignDir reports whether a directory of another user blocks the way to a path. The command cannot
// change the mode of that directory.
func blockedByForeignDir(name string) bool {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		fd, err := openNoLinks(dir)
		if err == nil {
			defer unix.Close(fd)
			var st unix.Stat_t
			return unix.Fstat(fd, &st) == nil && int(st.Uid) != unix.Getuid()
		}
		if err != unix.EACCES || dir == "/" {
			return false
		}
	}
}
