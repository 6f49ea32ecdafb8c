package confined

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/confined/helper"
)

const atOnce = helper.AtOnce

// socket makes a pair of sockets that preserve message boundaries.
func socket() (ours *net.UnixConn, theirs *os.File, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	for _, fd := range ends {
		// Room for a few messages; the kernel doubles the value, and may give
		// less.
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*helper.MaxMessage)
	}
	mine := os.NewFile(uintptr(ends[0]), "helper")
	defer mine.Close()
	theirs = os.NewFile(uintptr(ends[1]), "helper")
	conn, err := net.FileConn(mine)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil
}

// send sends a request; a large body is sent in a file.
func (h *worker) send(r *helper.Request) error {
	var rights []byte
	if len(r.Body) > maxInline {
		file, err := helper.PassedBytes(r.Body)
		if err != nil {
			return err
		}
		defer file.Close()
		r.Body, r.File = nil, true
		rights = unix.UnixRights(int(file.Fd()))
	}
	message := r.Append(make([]byte, 0, len(r.Body)+len(r.Path)+len(r.Target)+64))
	if len(message) > helper.MaxMessage {
		return unix.ENAMETOOLONG
	}
	h.conn.SetWriteDeadline(time.Now().Add(sendTime))
	_, _, err := h.conn.WriteMsgUnix(message, rights, nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		h.conn.Close()
	}
	return err
}

// sendTime is how long a helper may leave a request unread. A working helper
// reads each request at once; a helper that does not is ended.
const sendTime = 30 * time.Second

// receive receives the next answer. Its body is a part of the buffer.
func (h *worker) receive(buffer []byte) (*helper.Answer, *os.File, error) {
	var rights [64]byte
	n, oobn, flags, _, err := h.conn.ReadMsgUnix(buffer, rights[:])
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.ECONNRESET) || err == nil && n == 0:
		return nil, nil, errEnded
	case err != nil:
		return nil, nil, err
	}
	file, err := helper.FileFrom(rights[:oobn])
	if err != nil {
		return nil, nil, err
	}
	answer, err := helper.DecodeAnswer(buffer[:n])
	if err == nil && (flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || answer.File != (file != nil)) {
		err = helper.ErrMessage
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return answer, file, nil
}
