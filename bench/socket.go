//go:build linux

package main

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

const (
	// receiveBuffer holds several of the largest notifications, so that a read of
	// the socket takes as much as there is.
	receiveBuffer = 1 << 20

	// scenarioTimeout bounds everything that is done on one connection.
	scenarioTimeout = time.Minute
)

// A socket is the client's side of a WebSocket that costs little: messages are
// looked at where they were received.
type socket struct {
	conn  *net.TCPConn
	in    *bufio.Reader
	used  int    // bytes of the receive buffer that the last message takes
	whole []byte // of a message that came in pieces or is too large for the buffer
	quick bool   // acknowledge what arrives at once
}

func dialSocket(url string) (*socket, error) {
	host := strings.TrimSuffix(strings.TrimPrefix(url, "ws://"), "/")
	conn, err := net.DialTimeout("tcp", host, scenarioTimeout)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(scenarioTimeout))
	s := &socket{conn: conn.(*net.TCPConn), in: bufio.NewReaderSize(conn, receiveBuffer)}
	key := make([]byte, 16)
	rand.Read(key)
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", host, base64.StdEncoding.EncodeToString(key))
	answer, err := http.ReadResponse(s.in, nil)
	if err == nil && answer.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("upgrade answered with %s", answer.Status)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// Frames.
const (
	opText, opClose, opPing, opPong = 0x1, 0x8, 0x9, 0xA

	finalFrame = 0x80
	maskedSize = 0x80
)

// write sends one frame. Its mask is zero, which leaves the payload as it is.
func (s *socket) write(op byte, payload []byte) error {
	frame := []byte{finalFrame | op}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, maskedSize|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, maskedSize|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, maskedSize|127), uint64(n))
	}
	_, err := s.conn.Write(append(append(frame, 0, 0, 0, 0), payload...))
	return err
}

// read returns the next message, which is valid until the next call.
func (s *socket) read() ([]byte, error) {
	s.in.Discard(s.used)
	s.used, s.whole = 0, s.whole[:0]
	for {
		first, size, err := s.header()
		if err != nil {
			return nil, err
		}
		op, final := first&0x0f, first&finalFrame != 0
		if op == opText && final && size <= receiveBuffer {
			s.used = size
			return s.in.Peek(size)
		}
		begun := len(s.whole)
		s.whole = append(s.whole, make([]byte, size)...)
		payload := s.whole[begun:]
		if _, err := io.ReadFull(s.in, payload); err != nil {
			return nil, err
		}
		switch {
		case op == opClose:
			return nil, fmt.Errorf("the server closed the connection: %q", payload)
		case op == opPing:
			err = s.write(opPong, payload)
		}
		if op >= opClose { // control frames may come between the pieces of a message
			s.whole = s.whole[:begun]
		} else if final {
			return s.whole, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// header takes the header of a frame.
func (s *socket) header() (first byte, size int, err error) {
	if s.quick && s.in.Buffered() == 0 {
		s.acknowledge()
	}
	head, err := s.in.Peek(2)
	if err != nil {
		return 0, 0, err
	}
	first, size = head[0], int(head[1])
	length := 2
	switch size {
	case 126:
		length = 4
	case 127:
		length = 10
	}
	if head, err = s.in.Peek(length); err != nil {
		return 0, 0, err
	}
	switch size {
	case 126:
		size = int(binary.BigEndian.Uint16(head[2:]))
	case 127:
		size = int(binary.BigEndian.Uint64(head[2:]))
	}
	_, err = s.in.Discard(length)
	return first, size, err
}

// acknowledge makes the kernel acknowledge the next segment at once. It forgets
// that soon, hence before each wait. A server that leaves Nagle's algorithm on
// holds its second small message back until the first is acknowledged, by
// default 40 ms later.
func (s *socket) acknowledge() {
	if raw, err := s.conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
		})
	}
}
