//go:build linux

package main

import (
	"bufio"
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
	// receiveBuffer holds several of the largest notifications, so that one read of the socket takes
	// all that has arrived.
	receiveBuffer = 1 << 20

	// firstAnswerBuffer holds the answer to initialize. Clearing a receiveBuffer takes the client a good
	// part of a millisecond, which would count as the server's time from its start to its first answer.
	firstAnswerBuffer = 16 << 10

	// connTimeout bounds the life of one connection.
	connTimeout = time.Minute
)

// A socket is the client's side of a WebSocket with little overhead: messages are not copied out of
// the receive buffer.
type socket struct {
	conn  net.Conn
	in    *bufio.Reader
	used  int    // bytes of the receive buffer that the last message takes
	whole []byte // a message that came in pieces, or is too large for the buffer
	quick bool   // acknowledge segments at once
}

// dial opens a connection with a receive buffer of the given size.
func dial(url string, buffer int) (*socket, error) {
	host := strings.TrimPrefix(url, "ws://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(connTimeout))
	s := &socket{conn: conn, in: bufio.NewReaderSize(conn, buffer)}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGV0aGVyIGJlbmNobWFyaw==\r\n\r\n", host)
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

// Opcodes and flags of frames.
const (
	opText, opClose, opPing, opPong = 0x1, 0x8, 0x9, 0xA

	final  = 0x80 // in the first byte
	masked = 0x80 // in the second
)

// write sends one frame. Its mask is zero, which leaves the payload as it is.
func (s *socket) write(op byte, payload []byte) error {
	frame := []byte{final | op}
	if n := len(payload); n < 126 {
		frame = append(frame, masked|byte(n))
	} else {
		frame = binary.BigEndian.AppendUint64(append(frame, masked|127), uint64(n))
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
		if first == final|opText && size <= s.in.Size() {
			s.used = size
			return s.in.Peek(size)
		}
		before := len(s.whole)
		s.whole = append(s.whole, make([]byte, size)...)
		payload := s.whole[before:]
		if _, err := io.ReadFull(s.in, payload); err != nil {
			return nil, err
		}
		switch op := first &^ final; {
		case op == opClose:
			return nil, fmt.Errorf("the server closed the connection: %q", payload)
		case op == opPing:
			if err := s.write(opPong, payload); err != nil {
				return nil, err
			}
			s.whole = s.whole[:before]
		case op == opPong:
			s.whole = s.whole[:before]
		case first&final != 0:
			return s.whole, nil
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
	if head, err = s.in.Peek(length); err == nil && length > 2 {
		size = 0
		for _, b := range head[2:] {
			size = size<<8 | int(b)
		}
	}
	s.in.Discard(length)
	return first, size, err
}

// acknowledge makes the kernel acknowledge the next segment at once. The kernel resets the option
// soon, so it is set before each wait. A server with Nagle's algorithm holds its second small message
// back until the first one is acknowledged, which takes 40 ms without this option.
func (s *socket) acknowledge() {
	if raw, err := s.conn.(*net.TCPConn).SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
		})
	}
}
