//go:build unix

package proc

import (
	"fmt"
	"os"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

func readDescriptor(fd uintptr, p []byte) (n int, err error) {
	for {
		n, err = syscall.Read(int(fd), p)
		if err != syscall.EINTR {
			return n, err
		}
	}
}

func writeDescriptor(fd uintptr, p []byte) (n int, err error) {
	for {
		n, err = syscall.Write(int(fd), p)
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// The terminal of a process that did not ask for a size.
const (
	defaultRows = 24
	defaultCols = 80
)

// openTerminal makes a terminal. The slave is for the child: it blocks.
func openTerminal(rows, cols uint16) (master, slave *os.File, err error) {
	if rows == 0 {
		rows = defaultRows
	}
	if cols == 0 {
		cols = defaultCols
	}
	master, slave, err = pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	err = pty.Setsize(master, &pty.Winsize{Rows: rows, Cols: cols})
	if err == nil {
		// os.OpenFile made it non-blocking, and the child shares that flag.
		err = withDescriptor(slave, func(fd int) error { return unix.SetNonblock(fd, false) })
	}
	if err != nil {
		master.Close()
		slave.Close()
		return nil, nil, fmt.Errorf("set up a terminal: %w", err)
	}
	return master, slave, nil
}

func withDescriptor(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var doErr error
	if err := conn.Control(func(fd uintptr) { doErr = do(int(fd)) }); err != nil {
		return err
	}
	return doErr
}

// eofChar is what a person would type on the terminal to end the input.
func eofChar(fd uintptr) (char byte, ok bool) {
	t, err := unix.IoctlGetTermios(int(fd), ioctlGetTermios)
	if err != nil || t.Lflag&unix.ICANON == 0 || t.Cc[unix.VEOF] == 0 {
		return 0, false
	}
	return t.Cc[unix.VEOF], true
}

func (c *child) resize(rows, cols uint16) error {
	return pty.Setsize(c.outputs[0].file, &pty.Winsize{Rows: rows, Cols: cols})
}

func (c *child) signalGroup(sig syscall.Signal) error {
	if err := unix.Kill(-c.pid, sig); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal process group %d: %w", c.pid, err)
	}
	return nil
}
