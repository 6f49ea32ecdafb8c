package gateway

import (
	"bufio"
	"errors"
	"io"

	"github.com/tetherexec/tether/internal/websocket"
	"github.com/tetherexec/tether/wire"
)

// maxHello is how much of a client is read to find its first message. A longer one is left to the host.
const maxHello = 256 << 10

// A hello is what a client sends up to the end of its first message.
type hello struct {
	raw    []byte  // all of it, for the host
	id     wire.ID // of the request, if it is initialize
	init   bool    // it is initialize
	resume string  // the session that the client resumes; "": none
}

// errLeft means that the client has left before its first message.
var errLeft = errors.New("the client has left")

// readHello reads the first message of a client. Whatever it is, the host answers it: readHello finds out only what is needed to choose
// the host.
func readHello(in *bufio.Reader) (h hello, err error) {
	var message []byte
	for len(h.raw) < maxHello {
		header, payload, err := h.readFrame(in)
		switch {
		case errors.Is(err, errTooLong):
			return h, nil
		case err != nil:
			return h, err
		case header.Op == websocket.Close:
			return h, errLeft
		case header.Op.IsControl():
			continue
		}
		message = append(message, payload...)
		if header.Fin {
			h.parse(message)
			return h, nil
		}
	}
	return h, nil
}

var errTooLong = errors.New("the frame is too long")

// readFrame reads a frame. The payload is no longer masked; h.raw has the frame as it was sent.
func (h *hello) readFrame(in *bufio.Reader) (header websocket.Header, payload []byte, err error) {
	b, err := in.Peek(2)
	if err == nil {
		b, err = in.Peek(websocket.SizeFrom(b[1]))
	}
	if err != nil {
		return header, nil, errLeft
	}
	if header, err = websocket.Parse(b); err != nil {
		return header, nil, errTooLong // the host refuses it
	}
	if header.Length > maxHello {
		return header, nil, errTooLong
	}
	start := len(h.raw) + len(b)
	h.raw = append(h.raw, b...)
	if _, err := in.Discard(len(b)); err != nil {
		return header, nil, errLeft
	}
	h.raw = append(h.raw, make([]byte, header.Length)...)
	if _, err := io.ReadFull(in, h.raw[start:]); err != nil {
		return header, nil, errLeft
	}
	payload = append(payload, h.raw[start:]...)
	if header.Masked {
		websocket.Mask(payload, header.Mask, 0)
	}
	return header, payload, nil
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
