package confine

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// What is executed can be found through /proc/PID/exe, with the mount that it was
// executed from: on that of the host its owner could change its mode, or more. So it
// is executed from a mount of its own, which is read-only, or from a copy in memory.

// frozen returns a program to be executed by descriptor, such that nobody who runs
// it can change it.
func readOnlyImage(f *os.File) (*os.File, error) {
	fd, err := unix.OpenTree(int(f.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err == nil {
		clone := os.NewFile(uintptr(fd), f.Name())
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr) == nil {
			return clone, nil
		}
		clone.Close()
	}
	return sealedCopy(f) // for users, and before Linux 5.12
}

// executable is the mode of a copy.
const executable = 0o555

// maxProgram bounds what is copied into memory to be executed.
const maxProgram = 256 << 20

// sealedCopy copies a program into memory, where nobody can change it any more.
func sealedCopy(f *os.File) (*os.File, error) {
	name := "tether:" + f.Name()
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	copied := os.NewFile(uintptr(fd), name)
	if err := fillAndSeal(copied, io.NewSectionReader(f, 0, maxProgram)); err != nil {
		copied.Close()
		return nil, fmt.Errorf("copy %s into memory: %w", f.Name(), err)
	}
	return copied, nil
}

func fillAndSeal(f *os.File, from io.Reader) error {
	if _, err := io.Copy(f, from); err != nil {
		return err
	}
	if err := f.Chmod(executable); err != nil {
		return err
	}
	const content = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, content|unix.F_SEAL_EXEC|unix.F_SEAL_SEAL)
	if err == unix.EINVAL { // before Linux 6.3
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, content|unix.F_SEAL_SEAL)
	}
	return err
}
