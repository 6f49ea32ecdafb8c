package stage

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// finishMounts makes the last mounts read-only and gives up the right to change
// mounts. bubblewrap could do the first as well, but it would read the whole
// table of mounts for each of them.
func (s *Config) finishMounts() error {
	if len(s.Freeze)+len(s.Seal)+len(s.Cover) == 0 {
		return nil
	}
	for _, path := range s.Cover {
		if err := coverLink(path); err != nil {
			return fmt.Errorf("cover the symbolic link %s: %w", path, err)
		}
	}
	for _, path := range s.Freeze {
		if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", path, err)
		}
		if err := makeReadOnly(path); err != nil {
			return err
		}
	}
	for _, path := range s.Seal {
		if err := makeReadOnly(path); err != nil {
			return err
		}
	}
	return dropCapabilities()
}

// coverLink mounts /dev/null over a symbolic link itself. No path can name a link
// as a mount point, so it uses a descriptor.
func coverLink(path string) error {
	link, err := at.Open(unix.AT_FDCWD, path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(link)
	var st unix.Stat_t
	if err := unix.Fstat(link, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return fmt.Errorf("it has changed while the sandbox was built")
	}
	null, err := unix.OpenTree(unix.AT_FDCWD, "/dev/null", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	return unix.MoveMount(null, "", link, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// makeReadOnly keeps the other flags of a mount: the kernel does not allow
// changing them.
func makeReadOnly(path string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return fmt.Errorf("look at the mount %s: %w", path, err)
	}
	const same = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME
	flags := uintptr(fs.Flags) & same
	if fs.Flags&unix.ST_RELATIME != 0 {
		flags |= unix.MS_RELATIME
	}
	if err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// Capabilities are the capabilities that the stage needs for its work, and to
// give them up.
var Capabilities = []string{"CAP_SYS_ADMIN", "CAP_SETPCAP"}

// dropCapabilities gives up the Capabilities for good. bubblewrap has dropped all others, but without a user namespace
// it leaves them in the bounding set.
func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL && c > 0 { // the kernel has no more
			break
		}
		if err != nil {
			return fmt.Errorf("narrow the capabilities: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear the capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop the capabilities: %w", err)
	}
	return nil
}
