package confine

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A command can find the executed program through /proc/PID/exe, together with the
// mount that it was executed from. On a mount of the host, the owner of the file
// could change its mode or more. So it is executed from a read-only mount of its
// own, or from a copy in memory.

// readOnlyImage returns a program to be executed by descriptor. A process that
// runs it cannot change it.
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
	return sealedCopy(f) // for users other than root, and before Linux 5.12
}

// executable is the mode of a copy.
const executable = 0o555

// maxProgram bounds a program that is copied into memory to be executed.
const maxProgram = 256 << 20

// sealedCopy copies a program into memory and seals the copy, so that it cannot
// be changed.
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
