package rpc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

const (
	// readBuffer holds the frames that arrive together; larger payloads are read
	// past it.
	readBuffer = 4 << 10

	// growStep is how much memory a message gets before its bytes have arrived.
	growStep = 1 << 20
)

// A WebSocket is a Stream over an upgraded connection.
type WebSocket struct {
	conn      net.Conn
	in        *bufio.Reader
	client    bool // we are the client: what we send is masked
	onControl func(Control, []byte)
	heard     atomic.Int64 // unix nanoseconds
}

// NewWebSocket returns the server's end of an upgraded connection; buffered are
// the bytes that were read behind the handshake.
func NewWebSocket(conn net.Conn, buffered []byte) *WebSocket {
	return newWebSocket(conn, buffered, false)
}

// NewWebSocketClient returns the client's end.
func NewWebSocketClient(conn net.Conn, buffered []byte) *WebSocket {
	return newWebSocket(conn, buffered, true)
}

func newWebSocket(conn net.Conn, buffered []byte, client bool) *WebSocket {
	s := &WebSocket{conn: conn, client: client}
	var r io.Reader = stampedReader{s}
	if len(buffered) > 0 {
		r = io.MultiReader(bytes.NewReader(bytes.Clone(buffered)), r)
	}
	s.in = bufio.NewReaderSize(r, readBuffer)
	s.heard.Store(time.Now().UnixNano())
	return s
}

// stampedReader notes when bytes arrive.
type stampedReader struct{ s *WebSocket }

func (r stampedReader) Read(p []byte) (int, error) {
	n, err := r.s.conn.Read(p)
	if n > 0 {
		r.s.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// Heard implements Stream.
func (s *WebSocket) Heard() time.Time { return time.Unix(0, s.heard.Load()) }

// Acknowledged implements Stream.
func (s *WebSocket) Acknowledged() uint64 { return acknowledged(s.conn) }

// OnControl implements Stream.
func (s *WebSocket) OnControl(f func(Control, []byte)) { s.onControl = f }

// Close implements Stream.
func (s *WebSocket) Close() error { return s.conn.Close() }

// Read implements Stream.
func (s *WebSocket) Read() ([]byte, error) {
	var msg []byte
	state := ws.StateServerSide
	if s.client {
		state = ws.StateClientSide
	}
	for text := false; ; {
		h, err := ws.ReadHeader(s.in)
		if errors.Is(err, ws.ErrHeaderLengthMSB) {
			return nil, &CloseError{CloseProtocol, "frame length out of range"}
		} else if err != nil {
			return nil, err
		}
		if err := ws.CheckHeader(h, state); err != nil {
			return nil, &CloseError{CloseProtocol, err.Error()}
		}
		if h.OpCode.IsControl() {
			if err := s.control(h); err != nil {
				return nil, err
			}
			continue
		}
		if h.Length > MaxMessage-int64(len(msg)) {
			return nil, &CloseError{CloseTooBig, fmt.Sprintf("message exceeds the limit of %d bytes", MaxMessage)}
		}
		if msg, err = s.payload(msg, h); err != nil {
			return nil, err
		}
		text = text || h.OpCode == ws.OpText
		if !h.Fin {
			state |= ws.StateFragmented
			continue
		}
		if text && !utf8.Valid(msg) {
			return nil, &CloseError{CloseBadData, "text message is not valid UTF-8"}
		}
		return msg, nil
	}
}

// payload appends the payload of a frame to msg. Memory grows with what has
// arrived, not with what the header promises.
func (s *WebSocket) payload(msg []byte, h ws.Header) ([]byte, error) {
	for left := int(h.Length); left > 0; {
		n := min(left, max(growStep, len(msg)))
		start := len(msg)
		if cap(msg)-start < n {
			grown := make([]byte, start, start+n)
			copy(grown, msg)
			msg = grown
		}
		msg = msg[:start+n]
		if _, err := io.ReadFull(s.in, msg[start:]); err != nil {
			return nil, err
		}
		if h.Masked {
			ws.Cipher(msg[start:], h.Mask, int(h.Length)-left)
		}
		left -= n
	}
	return msg, nil
}

func (s *WebSocket) control(h ws.Header) error {
	payload, err := s.payload(nil, h)
	if err != nil {
		return err
	}
	switch h.OpCode {
	case ws.OpPing:
		s.onControl(Ping, payload)
	case ws.OpPong:
		s.onControl(Pong, payload)
	case ws.OpClose:
		return io.EOF
	}
	return nil
}

// Open implements Stream.
func (s *WebSocket) Open(b []byte, size int) []byte {
	return append(b, make([]byte, s.headerSize(size))...)
}

// Seal implements Stream.
func (s *WebSocket) Seal(b []byte, mark, size int) []byte {
	reserved := s.headerSize(size)
	payload := b[mark+reserved:]
	if need := s.headerSize(len(payload)); need != reserved {
		// The estimate was off: move the message to where it belongs.
		for len(b) < mark+need+len(payload) {
			b = append(b, 0)
		}
		copy(b[mark+need:], payload)
		b = b[:mark+need+len(payload)]
		payload = b[mark+need:]
	}
	s.seal(b[mark:], payload, ws.OpText, true)
	return b
}

func (s *WebSocket) headerSize(length int) int {
	n := 2
	switch {
	case length > 65535:
		n = 10
	case length > 125:
		n = 4
	}
	if s.client {
		n += 4
	}
	return n
}

// seal writes the header of a frame to the front of b and, on the client's
// side, masks the payload.
func (s *WebSocket) seal(b, payload []byte, op ws.OpCode, fin bool) {
	b[0] = byte(op)
	if fin {
		b[0] |= 0x80
	}
	n := 2
	switch length := len(payload); {
	case length > 65535:
		b[1] = 127
		binary.BigEndian.PutUint64(b[2:], uint64(length))
		n = 10
	case length > 125:
		b[1] = 126
		binary.BigEndian.PutUint16(b[2:], uint16(length))
		n = 4
	default:
		b[1] = byte(length)
	}
	if s.client {
		b[1] |= 0x80
		var mask [4]byte
		binary.NativeEndian.PutUint32(mask[:], rand.Uint32())
		copy(b[n:], mask[:])
		ws.Cipher(payload, mask, 0)
	}
}

// Write implements Stream.
func (s *WebSocket) Write(b []byte) error {
	_, err := s.conn.Write(b)
	return err
}

// WriteMessage implements Stream.
func (s *WebSocket) WriteMessage(msg []byte) error {
	op := ws.OpText
	for first := true; first || len(msg) > 0; first = false {
		part := msg[:min(len(msg), maxFrame)]
		msg = msg[len(part):]
		header := make([]byte, s.headerSize(len(part)))
		s.seal(header, part, op, len(msg) == 0)
		frame := net.Buffers{header, part}
		if _, err := frame.WriteTo(s.conn); err != nil {
			return err
		}
		op = ws.OpContinuation
	}
	return nil
}

// Control implements Stream.
func (s *WebSocket) Control(b []byte, kind Control, payload []byte) []byte {
	op := map[Control]ws.OpCode{Ping: ws.OpPing, Pong: ws.OpPong, Goodbye: ws.OpClose}[kind]
	mark := len(b)
	b = s.Open(b, len(payload))
	b = append(b, payload...)
	s.seal(b[mark:], b[len(b)-len(payload):], op, true)
	return b
}

// goodbye is the payload of a close frame.
func goodbye(e *CloseError) []byte {
	reason := e.Reason[:min(len(e.Reason), closeReasonSize)]
	return append(binary.BigEndian.AppendUint16(nil, e.Code), reason...)
}
