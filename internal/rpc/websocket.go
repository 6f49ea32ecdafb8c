package rpc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/tetherexec/tether/internal/websocket"
)

const (
	// readBuffer holds the frames that arrive together; larger payloads are read
	// past it.
	readBuffer = 4 << 10

	// growStep is how much memory a message gets before its first byte has arrived.
	// Later the memory grows with the bytes that have arrived.
	growStep = 64 << 10

	// A client has few connections and trusts its servers, so it uses more memory:
	// it reads more at once, and a message of output need not grow.
	clientReadBuffer = 64 << 10
	clientGrowStep   = 256 << 10
)

// A WebSocket is a Stream over an upgraded connection.
type WebSocket struct {
	conn      net.Conn
	raw       syscall.RawConn // nil unless conn is a plain socket
	trying    tryWriter       // nil unless conn is one
	hurrying  hurrier         // the same
	in        *bufio.Reader
	client    bool // this is the client's end: it masks its frames
	textOnly  bool // binary messages are skipped
	growStep  int
	onControl func(Control, []byte)
	lastRead  moment
	received  atomic.Uint64
	room      *arrival // nil: no limit but MaxMessage
	refused   bool     // there is no room for the message that is being read
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
	s := &WebSocket{conn: conn, raw: plainSocket(conn), client: client, growStep: growStep, onControl: func(Control, []byte) {}}
	s.trying, _ = conn.(tryWriter)
	s.hurrying, _ = conn.(hurrier)
	buffer := readBuffer
	if client {
		s.growStep, buffer = clientGrowStep, clientReadBuffer
	}
	var r io.Reader = stampedReader{s}
	if len(buffered) > 0 {
		r = io.MultiReader(bytes.NewReader(bytes.Clone(buffered)), r)
	}
	s.in = bufio.NewReaderSize(r, buffer)
	s.lastRead.begin()
	return s
}

// Conn is the connection below the WebSocket.
func (s *WebSocket) Conn() net.Conn { return s.conn }

// Reader has what the peer sends, as frames. It is for a program that passes them on, and does not call Read.
func (s *WebSocket) Reader() *bufio.Reader { return s.in }

// TextOnly makes the stream skip binary messages; otherwise they are read like
// text. It is called before the first Read.
func (s *WebSocket) TextOnly() { s.textOnly = true }

// limit implements limited.
func (s *WebSocket) limit(room *arrival) {
	s.room = room
	room.interrupt = func() { s.conn.SetReadDeadline(time.Unix(1, 0)) }
	room.restore = func() { s.conn.SetReadDeadline(time.Time{}) }
}

// stampedReader notes when bytes arrive, and how many.
type stampedReader struct{ s *WebSocket }

func (r stampedReader) Read(p []byte) (int, error) {
	n, err := r.s.conn.Read(p)
	if n > 0 {
		r.s.lastRead.note()
		r.s.received.Add(uint64(n))
	}
	return n, err
}

// LastRead implements Stream.
func (s *WebSocket) LastRead() time.Time { return s.lastRead.time() }

// Received implements Stream.
func (s *WebSocket) Received() uint64 { return s.received.Load() }

// Acknowledged implements Stream.
func (s *WebSocket) Acknowledged() uint64 {
	bytes, _ := s.acknowledged()
	return bytes
}

// Unacknowledged implements Stream.
func (s *WebSocket) Unacknowledged() bool {
	_, waiting := s.acknowledged()
	return waiting
}

// acknowledged counts the bytes that the peer is known to have received, and reports whether others are on the way.
func (s *WebSocket) acknowledged() (bytes uint64, waiting bool) {
	if c, ok := s.conn.(interface{ Acknowledged() (uint64, bool) }); ok {
		return c.Acknowledged()
	}
	return acknowledged(s.conn)
}

// OnControl implements Stream.
func (s *WebSocket) OnControl(f func(Control, []byte)) { s.onControl = f }

// Close implements Stream.
func (s *WebSocket) Close() error { return s.conn.Close() }

// CloseWrite implements Stream.
func (s *WebSocket) CloseWrite() error {
	if half, ok := s.conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return s.conn.Close()
}

// Drain implements Stream.
func (s *WebSocket) Drain() { _, _ = io.Copy(io.Discard, s.conn) }

// Read implements Stream.
func (s *WebSocket) Read() ([]byte, error) {
	var msg []byte
	s.refused = false
	for text, fragmented := false, false; ; {
		h, err := s.header()
		if err != nil {
			if fragmented {
				err = noEOF(err)
			}
			return nil, err
		}
		if err := h.Check(!s.client, fragmented); err != nil {
			return nil, violation(CloseProtocol, err.Error())
		}
		if h.Op.IsControl() {
			if err := s.control(h); err != nil {
				return nil, err
			}
			continue
		}
		if h.Length > MaxMessage-int64(len(msg)) {
			return nil, violation(CloseTooBig, fmt.Sprintf("message exceeds the limit of %d bytes", MaxMessage))
		}
		if err := s.reserve(len(msg) + int(h.Length)); err != nil {
			return nil, err
		}
		if msg, err = s.payload(msg, h); err != nil {
			return nil, err
		}
		text = text || h.Op == websocket.Text
		if !h.Fin {
			fragmented = true
			continue
		}
		if !text && s.textOnly {
			s.room.drop()
			msg, fragmented, s.refused = nil, false, false
			continue
		}
		if s.refused {
			return msg, errRefused
		}
		if text && !utf8.Valid(msg) {
			return nil, violation(CloseBadData, "text message is not valid UTF-8")
		}
		return msg, nil
	}
}

// reserve takes room for a message of size bytes, or refuses the message.
func (s *WebSocket) reserve(size int) error {
	if s.refused {
		return nil
	}
	err := s.room.reserve(size)
	if errors.Is(err, errRefused) {
		s.refuse()
		return nil
	}
	return err
}

// refuse drops the message that is being read, except for its head, and gives back its room.
// The rest of the message is still read, so that the messages behind it can be.
func (s *WebSocket) refuse() {
	s.refused = true
	s.room.drop()
}

// evicted reports whether err only says that the message being read was evicted. Then it
// refuses the message, and reading goes on.
func (s *WebSocket) evicted(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || !s.room.wasEvicted() {
		return false
	}
	s.refuse()
	return true
}

// peek is s.in.Peek, except that it goes on after an eviction.
func (s *WebSocket) peek(n int) ([]byte, error) {
	for {
		b, err := s.in.Peek(n)
		if err == nil || !s.evicted(err) {
			return b, err
		}
	}
}

// readFull reads all of p.
func (s *WebSocket) readFull(p []byte) error {
	for {
		n, err := io.ReadFull(s.in, p)
		if err == nil || !s.evicted(err) {
			return noEOF(err)
		}
		p = p[n:]
	}
}

// header reads the header of a frame. It returns io.EOF only at the border
// between frames.
func (s *WebSocket) header() (h websocket.Header, err error) {
	b, err := s.peek(2)
	if err != nil {
		if len(b) > 0 {
			err = noEOF(err)
		}
		return h, err
	}
	size := websocket.SizeFrom(b[1])
	if b, err = s.peek(size); err != nil {
		return h, noEOF(err)
	}
	if h, err = websocket.Parse(b); err != nil {
		return h, violation(CloseProtocol, err.Error())
	}
	_, err = s.in.Discard(size)
	return h, err
}

// noEOF replaces io.EOF by io.ErrUnexpectedEOF, for an end in the middle of a frame
// or message.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// payload appends the payload of a frame to msg. Of a refused message it keeps only
// the head. Memory grows with the bytes that have arrived, not with the length in
// the header.
func (s *WebSocket) payload(msg []byte, h websocket.Header) ([]byte, error) {
	for left := int(h.Length); left > 0; {
		if s.refused {
			msg = slices.Clone(msg[:min(len(msg), headSize)]) // frees the rest
		}
		start := len(msg)
		n := min(left, max(s.growStep, start))
		msg = slices.Grow(msg, n)[:start+n]
		n, err := io.ReadFull(s.in, msg[start:])
		msg = msg[:start+n]
		if err != nil && !s.evicted(err) {
			return nil, noEOF(err)
		}
		if h.Masked {
			websocket.Mask(msg[start:], h.Mask, int(h.Length)-left)
		}
		left -= n
	}
	if s.refused {
		msg = slices.Clone(msg[:min(len(msg), headSize)])
	}
	return msg, nil
}

func (s *WebSocket) control(h websocket.Header) error {
	payload := make([]byte, h.Length) // of at most 125 bytes
	if err := s.readFull(payload); err != nil {
		return err
	}
	if h.Masked {
		websocket.Mask(payload, h.Mask, 0)
	}
	switch h.Op {
	case websocket.Ping:
		s.onControl(Ping, payload)
	case websocket.Pong:
		s.onControl(Pong, payload)
	case websocket.Close:
		return peerCloseError(payload)
	}
	return nil
}

// peerCloseError is the error for a close frame of the peer.
func peerCloseError(payload []byte) *CloseError {
	if len(payload) == 0 {
		return &CloseError{Code: CloseNormal, Reason: "closed by the peer", byPeer: true}
	}
	code, reason, err := websocket.ParseClose(payload)
	if err != nil {
		return violation(CloseProtocol, err.Error())
	}
	return &CloseError{Code: code, Reason: "closed by the peer: " + reason, byPeer: true}
}

// Open implements Stream.
func (s *WebSocket) Open(b []byte, size int) []byte {
	var room [websocket.MaxHeader]byte
	return append(b, room[:websocket.HeaderSize(size, s.client)]...)
}

// Seal implements Stream.
func (s *WebSocket) Seal(b []byte, mark, size int) []byte {
	reserved := websocket.HeaderSize(size, s.client)
	payload := b[mark+reserved:]
	if need := websocket.HeaderSize(len(payload), s.client); need != reserved {
		// The estimate was off: move the message to where it belongs.
		b = slices.Grow(b, websocket.MaxHeader)[:mark+need+len(payload)]
		copy(b[mark+need:], payload)
		payload = b[mark+need:]
	}
	websocket.Seal(b[mark:], payload, websocket.Text, true, s.client)
	return b
}

// Write implements Stream.
func (s *WebSocket) Write(b []byte) error {
	_, err := s.conn.Write(b)
	return err
}

// A tryWriter is a connection that is no socket, and can tell that it is full.
type tryWriter interface {
	// TryWrite writes as much as can be written without waiting.
	TryWrite(b []byte) (n int, err error)
}

// A hurrier is a stream or connection whose writes may wait a moment so that the next one has more messages of sources. Hurry ends that: another message
// is to be written.
type hurrier interface{ Hurry() }

// Hurry implements hurrier.
func (s *WebSocket) Hurry() {
	if s.hurrying != nil {
		s.hurrying.Hurry()
	}
}

// TryWrite implements Stream. Only a plain socket or a tryWriter can tell that it is full.
func (s *WebSocket) TryWrite(b []byte) (n int, err error) {
	switch {
	case s.trying != nil:
		return s.trying.TryWrite(b)
	case s.raw == nil:
		return 0, nil
	}
	werr := s.raw.Write(func(fd uintptr) bool {
		n, err = tryWrite(fd, b)
		return true // whatever the result
	})
	return max(n, 0), errors.Join(werr, err)
}

// WriteMessage implements Stream.
func (s *WebSocket) WriteMessage(msg []byte) error {
	for first := true; first || len(msg) > 0; first = false {
		part := msg[:min(len(msg), maxFrame)]
		msg = msg[len(part):]
		if err := s.WritePart(part, first, len(msg) == 0); err != nil {
			return err
		}
	}
	return nil
}

// WritePart implements Stream.
func (s *WebSocket) WritePart(part []byte, first, last bool) error {
	op := websocket.Continuation
	if first {
		op = websocket.Text
	}
	header := make([]byte, websocket.HeaderSize(len(part), s.client))
	websocket.Seal(header, part, op, last, s.client)
	frame := net.Buffers{header, part}
	_, err := frame.WriteTo(s.conn)
	return err
}

// Control implements Stream.
func (s *WebSocket) Control(b []byte, kind Control, payload []byte) []byte {
	op := websocket.Ping
	switch kind {
	case Pong:
		op = websocket.Pong
	case CloseFrame:
		op = websocket.Close
	}
	return websocket.AppendFrame(b, op, true, s.client, payload)
}

// closeReasonSize is the room for the reason in a control frame, beside the code.
const closeReasonSize = 123

// ClosePayload is the payload of a close frame. A close frame of the peer is answered
// with the same code.
func ClosePayload(e *CloseError) []byte {
	payload := binary.BigEndian.AppendUint16(nil, e.Code)
	if e.byPeer {
		return payload
	}
	reason := []byte(strings.ToValidUTF8(e.Reason, "\uFFFD"))
	for len(reason) > closeReasonSize { // drop whole characters
		_, size := utf8.DecodeLastRune(reason)
		reason = reason[:len(reason)-size]
	}
	return append(payload, reason...)
}
