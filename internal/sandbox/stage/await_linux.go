package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/proc"
)

// A Channel is the server's side of the socket on which the stage reports.
type Channel struct{ file *os.File }

// NewChannel returns a channel, and the end that goes into the sandbox.
func NewChannel() (*Channel, *os.File, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	if err := errors.Join(unix.SetNonblock(ends[0], true), unix.SetsockoptInt(ends[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)); err != nil {
		unix.Close(ends[0])
		unix.Close(ends[1])
		return nil, nil, fmt.Errorf("prepare a socket: %w", err)
	}
	return &Channel{os.NewFile(uintptr(ends[0]), "report")}, os.NewFile(uintptr(ends[1]), "report"), nil
}

// OpenChannel returns the channel of an earlier program: f is a copy of its File, which then belongs to the channel.
func OpenChannel(f *os.File) *Channel { return &Channel{f} }

// File returns the socket on which the reports arrive.
func (c *Channel) File() *os.File { return c.file }

// Close closes the channel.
func (c *Channel) Close() error { return c.file.Close() }

// Await waits until the command has been executed, and returns the listeners that
// the stage has opened for the server. io.ErrUnexpectedEOF means that the stage
// never ran, or that an earlier program has taken its report. keep, if not nil, gets the report before that is
// removed from the queue, with descriptors that stay Await's: until then another program can read it too.
func (c *Channel) Await(ctx context.Context, keep func(proc.Launched, []*os.File) error) (launched proc.Launched, listeners []*os.File, err error) {
	defer context.AfterFunc(ctx, func() { c.file.SetReadDeadline(time.Unix(1, 0)) })()
	ready := false
	for {
		message, control, rerr := c.receive(ready)
		if rerr == nil && len(message) == 0 { // the end: the exec or the death of the stage closed the socket
			if ready {
				return launched, listeners, nil
			}
			return proc.Launched{}, nil, io.ErrUnexpectedEOF
		}
		if rerr == nil {
			first := !ready
			if first {
				launched, listeners = credentials(control, message[0] == ReportNative)
			}
			if ready, rerr = parseReport(message); first && rerr == nil {
				rerr = c.take(keep, launched, listeners)
			}
		}
		if rerr != nil {
			launched.Close()
			for _, l := range listeners {
				l.Close()
			}
			if ctx.Err() != nil {
				rerr = context.Cause(ctx)
			}
			return proc.Launched{}, nil, rerr
		}
	}
}

// take removes the first report from the queue, after keep has got it.
func (c *Channel) take(keep func(proc.Launched, []*os.File) error, launched proc.Launched, listeners []*os.File) error {
	if keep != nil {
		if err := keep(launched, listeners); err != nil {
			return err
		}
	}
	_, _, err := c.receive(true)
	return err
}

// receive returns the next report. If take is false, it stays in the queue, and its descriptors come with it.
func (c *Channel) receive(take bool) (message, control []byte, err error) {
	conn, err := c.file.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	buf := make([]byte, maxReport)
	var oob []byte
	flags := unix.MSG_CMSG_CLOEXEC
	if !take {
		oob = make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace((2+MaxListen)*4))
		flags |= unix.MSG_PEEK
	}
	var n, oobn int
	waitErr := conn.Read(func(fd uintptr) bool {
		for {
			n, oobn, _, _, err = syscall.Recvmsg(int(fd), buf, oob, flags)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	if waitErr != nil {
		return nil, nil, waitErr
	}
	return buf[:max(n, 0)], oob[:max(oobn, 0)], err
}

// credentials reads the kernel's information about the sender of a message, and
// the descriptors that came with it. native: the launcher itself is the first process of the namespace.
func credentials(control []byte, native bool) (l proc.Launched, listeners []*os.File) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return l, nil
	}
	for i := range messages {
		if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			l.Pid = int(cred.Pid)
			continue
		}
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for j, fd := range fds {
			unix.SetNonblock(fd, true) // for the poller
			switch {
			case j == 0:
				l.Leader = os.NewFile(uintptr(fd), "pidfd")
			case j == 1 && !native:
				l.Init = os.NewFile(uintptr(fd), "pidfd")
			default:
				listeners = append(listeners, os.NewFile(uintptr(fd), "listener"))
			}
		}
	}
	if l.Leader == nil { // without a descriptor the pid may already belong to another process
		l.Pid = 0
	}
	return l, listeners
}
