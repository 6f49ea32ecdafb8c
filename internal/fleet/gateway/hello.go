package gateway

import (
	"bufio"
	"bytes"
	"errors"

	"github.com/tetherexec/tether/internal/websocket"
	"github.com/tetherexec/tether/wire"
)

// maxHello is how much of a client is read to find its first message. A longer one is left to the host. It fits into every window of a link,
// so that no host can make the gateway wait while it passes the message on.
const maxHello = 32 << 10

// A hello is what a client sends up to the end of its first message, without control frames.
type hello struct {
	raw    []byte  // all of it, for the host
	id     wire.ID // of the request, if it is initialize
	init   bool    // it is initialize
	resume string  // the session that the client resumes; "": none
}

// errLeft means that the client has left before it was served.
var errLeft = errors.New("the client has left")

// readHello reads the first message of a client. Whatever it is, the host answers it: readHello finds out only what is needed to choose
// the host. Control frames before the end of the message are for control.
func readHello(in *bufio.Reader, control func(op websocket.Op, payload []byte) error) (h hello, err error) {
	var message []byte
	for len(h.raw) < maxHello {
		header, size, err := peekHeader(in)
		switch {
		case errors.Is(err, errLeft):
			return h, err
		case err != nil || header.Check(true, len(h.raw) > 0) != nil:
			return h, nil // the host refuses it
		case header.Length > int64(maxHello-len(h.raw)):
			return h, nil
		}
		var frame []byte
		if !header.Op.IsControl() {
			frame = h.raw
		}
		start := len(frame) + size
		if frame, err = appendFrom(in, frame, size+int(header.Length)); err != nil {
			return h, err
		}
		payload := bytes.Clone(frame[start:])
		websocket.Mask(payload, header.Mask, 0)
		if header.Op.IsControl() {
			err := control(header.Op, payload)
			if err != nil || header.Op == websocket.Close {
				return h, errLeft
			}
			continue
		}
		h.raw = frame
		message = append(message, payload...)
		if header.Fin {
			h.parse(message)
			return h, nil
		}
	}
	return h, nil
}

// peekHeader returns the header of the next frame, and its size.
func peekHeader(in *bufio.Reader) (header websocket.Header, size int, err error) {
	b, err := in.Peek(2)
	if err == nil {
		b, err = in.Peek(websocket.SizeFrom(b[1]))
	}
	if err != nil {
		return header, 0, errLeft
	}
	header, err = websocket.Parse(b)
	return header, len(b), err
}

// appendFrom appends the next n bytes to b, which grows as they arrive.
func appendFrom(in *bufio.Reader, b []byte, n int) ([]byte, error) {
	for n > 0 {
		if _, err := in.Peek(1); err != nil {
			return b, errLeft
		}
		there, _ := in.Peek(min(n, in.Buffered())) // cannot fail: the bytes are there
		b, n = append(b, there...), n-len(there)
		if _, err := in.Discard(len(there)); err != nil {
			return b, errLeft
		}
	}
	return b, nil
}

// parse finds out what the message asks for.
func (h *hello) parse(message []byte) {
	m, err := wire.Parse(message)
	if err != nil || m.Kind != wire.KindRequest || m.Method != wire.MethodInitialize {
		return
	}
	h.init, h.id = true, m.ID
	var p wire.InitializeParams
	if wire.Decode(m.Params, &p) == nil && p.ResumeSessionID != nil {
		h.resume = *p.ResumeSessionID
	}
}
