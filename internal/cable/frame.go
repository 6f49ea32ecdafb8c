package cable

import (
	"bufio"
	"bytes"
	"io"

	"github.com/tetherexec/tether/internal/websocket"
)

const (
	// maxMessage is the largest message that rules can see. It is above the limit
	// of the protocol; larger messages pass as bytes.
	maxMessage = 80 << 20
	// pieceSize is how much is read at once of bytes that are not a message.
	pieceSize = 64 << 10
)

// A frameReader divides a stream of frames into messages.
type frameReader struct {
	in    *bufio.Reader
	limit int64           // of a message
	emit  func(item) bool // false: no more is needed

	message item // the fragments so far
}

// run reads until the stream ends, and returns why. io.EOF means that the sender
// has ended it.
func (r *frameReader) run() error {
	for {
		var head bytes.Buffer
		h, err := websocket.ReadHeader(io.TeeReader(r.in, &head))
		if err != nil {
			if head.Len() == 0 {
				r.flush()
				return err
			}
			r.flush()
			if !r.emit(item{raw: head.Bytes()}) {
				return nil
			}
			return r.bytes(-1) // not WebSocket frames: forward them as bytes
		}
		if ok, err := r.frame(h, head.Bytes()); err != nil || !ok {
			return err
		}
	}
}

// frame reads the payload of one frame. It reports false if no more is needed.
func (r *frameReader) frame(h websocket.Header, head []byte) (bool, error) {
	if h.Length > r.limit-int64(len(r.message.raw)) {
		r.flush() // its continuation has nothing to continue, and passes too
		if !r.emit(item{raw: head}) {
			return false, nil
		}
		err := r.bytes(h.Length)
		return err == nil, err
	}
	raw := bytes.NewBuffer(make([]byte, 0, len(head)+int(min(h.Length, pieceSize))))
	raw.Write(head)
	if _, err := io.CopyN(raw, r.in, h.Length); err != nil {
		r.flush()
		r.emit(item{raw: raw.Bytes()})
		return false, err
	}
	payload := raw.Bytes()[len(head):]
	if h.Masked {
		payload = bytes.Clone(payload)
		websocket.Mask(payload, h.Mask, 0)
	}
	return r.add(h, raw.Bytes(), payload), nil
}

// add takes a complete frame.
func (r *frameReader) add(h websocket.Header, raw, payload []byte) bool {
	switch h.Op {
	case websocket.Ping:
		return r.emit(item{kind: PingFrame, raw: raw, payload: payload})
	case websocket.Pong:
		return r.emit(item{kind: PongFrame, raw: raw, payload: payload})
	case websocket.Close:
		return r.emit(item{kind: CloseFrame, raw: raw, payload: payload})
	case websocket.Text, websocket.Binary:
		if !r.flush() { // the peer begins a message in the middle of another
			return false
		}
		kind := Text
		if h.Op == websocket.Binary {
			kind = Binary
		}
		r.message = item{kind: kind, raw: raw, payload: payload}
	case websocket.Continuation:
		if r.message.kind == other {
			return r.emit(item{raw: raw})
		}
		r.message.raw = append(r.message.raw, raw...)
		r.message.payload = append(r.message.payload[:len(r.message.payload):len(r.message.payload)], payload...)
	default:
		return r.flush() && r.emit(item{raw: raw})
	}
	if !h.Fin {
		return true
	}
	whole := r.message
	r.message = item{}
	return r.emit(whole)
}

// flush forwards the fragments of a message that will not be completed.
func (r *frameReader) flush() bool {
	part := r.message.raw
	r.message = item{}
	return len(part) == 0 || r.emit(item{raw: part})
}

// bytes forwards n bytes, or all bytes if n is negative.
func (r *frameReader) bytes(n int64) error {
	for n != 0 {
		size := int64(pieceSize)
		if n > 0 {
			size = min(size, n)
		}
		piece := make([]byte, size)
		got, err := r.in.Read(piece)
		if got > 0 {
			if !r.emit(item{raw: piece[:got]}) {
				return io.ErrClosedPipe
			}
			if n > 0 {
				n -= int64(got)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// encode makes one frame that looks like a frame of the given sender.
func encode(from Direction, kind Kind, payload []byte) []byte {
	op := websocket.Text
	switch kind {
	case Binary:
		op = websocket.Binary
	case PingFrame:
		op = websocket.Ping
	case PongFrame:
		op = websocket.Pong
	case CloseFrame:
		op = websocket.Close
	}
	return websocket.AppendFrame(nil, op, true, from == FromClient, payload)
}
