//go:build linux || darwin

package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/outlog"
)

var bothStreams = []outlog.Stream{outlog.Stdout, outlog.Stderr}

// streams are the output pipes of a process without terminal.
func (s *Spec) streams() []outlog.Stream {
	if s.OneStream {
		return bothStreams[:1]
	}
	return bothStreams
}

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

// killGroup kills the group of a child that is not reaped yet.
func killGroup(pid int) { unix.Kill(-pid, unix.SIGKILL) }

// The default size of a terminal.
const (
	defaultRows = 24
	defaultCols = 80
)

// terminalSize replaces zeros by the default size.
func terminalSize(rows, cols uint16) *unix.Winsize {
	if rows == 0 {
		rows = defaultRows
	}
	if cols == 0 {
		cols = defaultCols
	}
	return &unix.Winsize{Row: rows, Col: cols}
}

// withDescriptor passes the descriptor of f to do. Unlike f.Fd it does not change
// the mode of f.
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

// eofChar is the character that ends the input of the terminal.
func eofChar(fd uintptr) (char byte, ok bool) {
	t, err := unix.IoctlGetTermios(int(fd), ioctlGetTermios)
	if err != nil || t.Lflag&unix.ICANON == 0 || t.Cc[unix.VEOF] == 0 {
		return 0, false
	}
	return t.Cc[unix.VEOF], true
}

func (c *child) resize(rows, cols uint16) error {
	err := c.withTerminal(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("resize the terminal: %w", err)
	}
	return nil
}

// terminalSize returns the size of the child's terminal, which its programs may have changed.
func (c *child) terminalSize() (rows, cols uint16, err error) {
	err = c.withTerminal(func(fd int) error {
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			rows, cols = size.Row, size.Col
		}
		return err
	})
	return rows, cols, err
}

// withTerminal calls do with our end of the child's terminal. A child of a durable server that was killed has none any more.
func (c *child) withTerminal(do func(fd int) error) error {
	if len(c.outputs) == 0 {
		return os.ErrClosed
	}
	return withDescriptor(c.outputs[0].file, do)
}

func (c *child) signalGroup(sig syscall.Signal) error {
	if c.launched.Leader != nil {
		return c.launched.signalGroup(sig)
	}
	if err := unix.Kill(-c.pid, sig); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal process group %d: %w", c.pid, err)
	}
	return nil
}
