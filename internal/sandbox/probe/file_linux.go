package probe

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// quick opens without waiting for the other end of a FIFO, and never makes a
// terminal the controlling terminal.
const quick = unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

var fileProbes = []probe{
	{"rename", "A B", func(a []string) error {
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_NOREPLACE)
	}},
	{"mkdir", "PATH", func(a []string) error { return unix.Mkdir(a[0], 0o755) }},
	{"write-file", "PATH", writeFile},
	{"read-file", "PATH", readFile},
	{"open-write", "PATH", func(a []string) error { return openClose(unix.AT_FDCWD, a[0], unix.O_WRONLY) }},
}

// openClose opens and closes a file without changing it.
func openClose(dir int, path string, flags int) error {
	fd, err := unix.Openat(dir, path, flags|quick, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// writeFile appends a line to a file, and creates the file if it is missing.
func writeFile(args []string) error {
	fd, err := unix.Open(args[0], unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|quick, 0o644)
	if err != nil {
		return at("open", err)
	}
	_, err = unix.Write(fd, []byte("probe\n"))
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return err
}

// readFile reads a file to its end and prints how many bytes it has.
func readFile(args []string) error {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return at("open", err)
	}
	f := os.NewFile(uintptr(fd), args[0])
	defer f.Close()
	n, err := io.Copy(io.Discard, f)
	if err != nil {
		return err
	}
	fmt.Println(n)
	return errQuiet
}
