package confine

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A command can find the programs that build its sandbox through /proc/PID/exe, together
// with the mounts that they were executed from. On a mount of the host, a command of the
// owner of such a program could change its mode or more. So the program is executed from
// an image: a read-only mount of its own, or a copy in memory.

// load opens the image of the program, unless that was done before.
func (p *program) load() error {
	if p.image != nil {
		return nil
	}
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		p.image, err = os.Open(p.path) // not our file, so no process of ours can change it
	} else {
		p.image, err = readOnlyImage(p.file)
	}
	return err
}

// loadBubblewrap opens the image of bubblewrap if this server runs as root. A command
// of root sees bubblewrap as the first process of its sandbox, and could change the
// file through that process, because root owns it. For other users bubblewrap is
// executed from its path, because the file there may have rights that an image lacks:
// a set-user-ID bit, or a profile of AppArmor.
func (c *Confiner) loadBubblewrap(path string) error {
	if os.Geteuid() != 0 || c.bubblewrapImage != nil {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	c.bubblewrapImage, err = readOnlyImage(f)
	return err
}

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
	copied, err := sealed(f.Name(), io.NewSectionReader(f, 0, maxProgram))
	if err != nil {
		return nil, fmt.Errorf("copy %s into memory: %w", f.Name(), err)
	}
	return copied, nil
}

// sealed returns a program in memory that cannot be changed.
func sealed(name string, from io.Reader) (*os.File, error) {
	name = "tether:" + name
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	copied := os.NewFile(uintptr(fd), name)
	if err := fillAndSeal(copied, from); err != nil {
		copied.Close()
		return nil, err
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
