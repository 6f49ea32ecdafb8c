package probe

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

var mountAttacks = []probe{
	{"mount-tmpfs", "PATH", mountTmpfs},
	{"umount", "PATH", umount},
	{"remount-rw", "PATH", remountRW},
	{"open-tree", "", openTree},
	{"fsopen", "", fsopen},
	{"move-mount", "", moveMount},
	{"mount-setattr", "", mountSetattr},
	{"pivot-root", "", pivotRoot},
}

// mountTmpfs mounts a tmpfs with an option that does not exist.
func mountTmpfs(args []string) error {
	return reached(unix.Mount("probe", args[0], "tmpfs", 0, "no-such-option"), unix.EINVAL)
}

// umount keeps the mount busy, and asks only to mark it as expired.
func umount(args []string) error {
	fd, err := unix.Open(args[0], unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return at("open", err)
	}
	defer unix.Close(fd)
	return reached(unix.Unmount(args[0], unix.MNT_EXPIRE), unix.EBUSY, unix.EAGAIN)
}

// remountRW makes a mount writable in a mount namespace of its own. If the
// process may not have one, it tries in this namespace, and restores the flags.
func remountRW(args []string) error {
	before, err := mountFlags(args[0])
	if err != nil {
		return at("statfs", err)
	}
	after := before &^ unix.MS_RDONLY
	var own script
	unshared := own.must("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWNS)
	own.must("mount", unix.SYS_MOUNT, 0, own.text("/"), 0, unix.MS_REC|unix.MS_PRIVATE, 0)
	remounted := own.remount(args[0], after)
	results, err := own.run()
	if err != nil {
		return err
	}
	if results[unshared].errno == 0 {
		if err := own.stoppedBy(results); err != nil {
			return err
		}
		return errnoOr(results[remounted].errno)
	}
	var here script
	remounted = here.remount(args[0], after)
	here.then(remounted, "mount", unix.SYS_MOUNT, 0, here.text(args[0]), 0, unix.MS_REMOUNT|unix.MS_BIND|before, 0)
	if results, err = here.run(); err != nil {
		return err
	}
	return errnoOr(results[remounted].errno)
}

// openTree copies the mount at / without attaching it.
func openTree([]string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// fsopen creates a tmpfs context and closes it.
func fsopen([]string) error {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// moveMount passes neither a source nor a target.
func moveMount([]string) error {
	err := unix.MoveMount(-1, "", -1, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	return reached(err, unix.EBADF)
}

// mountSetattr changes none of the attributes of /.
func mountSetattr([]string) error {
	var none unix.MountAttr
	path := [2]byte{'/'}
	return errnoOr(raw(unix.SYS_MOUNT_SETATTR, atCWD, uintptr(unsafe.Pointer(&path)), 0,
		uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none)))
}

// pivotRoot exchanges / for itself, which is not possible.
func pivotRoot([]string) error {
	return reached(unix.PivotRoot("/", "/"), unix.EBUSY, unix.EINVAL)
}
