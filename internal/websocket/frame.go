package websocket

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"math/rand/v2"
	"unicode/utf8"
)

const (
	// MaxHeader is the size of the longest header.
	MaxHeader = 14
	// MaxControl is the longest payload of a control frame.
	MaxControl = 125
)

// An Op is the opcode of a frame.
type Op byte

// The operations that RFC 6455 defines.
const (
	Continuation Op = 0x0
	Text         Op = 0x1
	Binary       Op = 0x2
	Close        Op = 0x8
	Ping         Op = 0x9
	Pong         Op = 0xa
)

// IsControl reports whether the frame may stand between the fragments of a message.
func (op Op) IsControl() bool { return op&0x8 != 0 }

// A Header is the part of a frame before its payload.
type Header struct {
	Fin      bool // the last frame of its message
	Reserved byte // three bits, zero without an extension
	Op       Op
	Masked   bool
	Mask     [4]byte
	Length   int64 // of the payload
}

// HeaderSize is the size of the header for a payload of this length.
func HeaderSize(length int, masked bool) int {
	n := 2
	switch {
	case length > 0xffff:
		n = 10
	case length > 125:
		n = 4
	}
	if masked {
		n += 4
	}
	return n
}

// SizeFrom is the size of a header that has this second byte.
func SizeFrom(second byte) int {
	n := 2
	switch second & 0x7f {
	case 126:
		n = 4
	case 127:
		n = 10
	}
	if second&0x80 != 0 {
		n += 4
	}
	return n
}

// errLength means that the length of a frame has its highest bit set.
var errLength = errors.New("frame length out of range")

// Parse decodes a header. b begins with all of its bytes; SizeFrom returns how many these are.
func Parse(b []byte) (Header, error) {
	h := Header{Fin: b[0]&0x80 != 0, Reserved: b[0] >> 4 & 7, Op: Op(b[0] & 0x0f), Masked: b[1]&0x80 != 0}
	n := 2
	switch length := b[1] & 0x7f; length {
	case 126:
		h.Length, n = int64(binary.BigEndian.Uint16(b[2:])), 4
	case 127:
		h.Length, n = int64(binary.BigEndian.Uint64(b[2:])), 10
	default:
		h.Length = int64(length)
	}
	if h.Length < 0 {
		return h, errLength
	}
	if h.Masked {
		h.Mask = [4]byte(b[n:])
	}
	return h, nil
}

// ReadHeader reads a header and no byte after it. It returns io.EOF only if there is no byte at all.
func ReadHeader(r io.Reader) (Header, error) {
	b := make([]byte, MaxHeader)
	if _, err := io.ReadFull(r, b[:2]); err != nil {
		return Header{}, err
	}
	if rest := b[2:SizeFrom(b[1])]; len(rest) > 0 {
		if _, err := io.ReadFull(r, rest); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return Header{}, err
		}
	}
	return Parse(b)
}

// Put writes the header to the front of b, which has HeaderSize bytes or more.
func (h Header) Put(b []byte) {
	b[0] = byte(h.Op) | h.Reserved<<4
	if h.Fin {
		b[0] |= 0x80
	}
	n := 2
	switch {
	case h.Length > 0xffff:
		b[1], n = 127, 10
		binary.BigEndian.PutUint64(b[2:], uint64(h.Length))
	case h.Length > 125:
		b[1], n = 126, 4
		binary.BigEndian.PutUint16(b[2:], uint16(h.Length))
	default:
		b[1] = byte(h.Length)
	}
	if h.Masked {
		b[1] |= 0x80
		copy(b[n:], h.Mask[:])
	}
}

// Seal writes the header of a frame to the front of b, which has HeaderSize bytes for it, and masks the payload
// in place if the frame comes from a client.
func Seal(b, payload []byte, op Op, fin, masked bool) {
	h := Header{Fin: fin, Op: op, Masked: masked, Length: int64(len(payload))}
	if masked {
		binary.NativeEndian.PutUint32(h.Mask[:], rand.Uint32())
		Mask(payload, h.Mask, 0)
	}
	h.Put(b)
}

// AppendFrame appends a frame to b. It does not change payload.
func AppendFrame(b []byte, op Op, fin, masked bool, payload []byte) []byte {
	var room [MaxHeader]byte
	mark, size := len(b), HeaderSize(len(payload), masked)
	b = append(append(b, room[:size]...), payload...)
	Seal(b[mark:], b[mark+size:], op, fin, masked)
	return b
}

// Check returns an error if the frame violates the protocol. fromClient means that a client has sent it; fragmented,
// that a message has begun and not ended before it.
func (h Header) Check(fromClient, fragmented bool) error {
	switch {
	case h.Op > Pong || h.Op > Binary && h.Op < Close:
		return errors.New("frame with an unknown opcode")
	case h.Reserved != 0:
		return errors.New("frame with reserved bits, but no extension was agreed on")
	case h.Op.IsControl() && h.Length > MaxControl:
		return errors.New("control frame of more than 125 bytes")
	case h.Op.IsControl() && !h.Fin:
		return errors.New("control frame in fragments")
	case fromClient && !h.Masked:
		return errors.New("frame of a client without a mask")
	case !fromClient && h.Masked:
		return errors.New("frame of a server with a mask")
	case fragmented && (h.Op == Text || h.Op == Binary):
		return errors.New("new message inside a fragmented one")
	case !fragmented && h.Op == Continuation:
		return errors.New("continuation without a message")
	}
	return nil
}

// Mask masks or unmasks a part of a payload. b begins at this offset of the payload.
func Mask(b []byte, mask [4]byte, offset int) {
	half := bits.RotateLeft32(binary.LittleEndian.Uint32(mask[:]), -8*(offset&3))
	key := uint64(half)<<32 | uint64(half)
	words := max(0, len(b)-1) &^ 7
	maskWords(b[:words], key)
	for i := range b[words:] { // 1 to 8 bytes, so that the race detector sees a write into each payload
		b[words+i] ^= byte(key >> (8 * i))
	}
}

// maskWords masks b, whose length is a multiple of 8. With norace, because the race detector would
// otherwise check each byte, which took a third of the time of large uploads in tests.
//
//go:norace
func maskWords(b []byte, key uint64) {
	for ; len(b) >= 32; b = b[32:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^key)
		binary.LittleEndian.PutUint64(b[8:], binary.LittleEndian.Uint64(b[8:])^key)
		binary.LittleEndian.PutUint64(b[16:], binary.LittleEndian.Uint64(b[16:])^key)
		binary.LittleEndian.PutUint64(b[24:], binary.LittleEndian.Uint64(b[24:])^key)
	}
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^key)
	}
}

// ParseClose decodes the payload of a close frame, which is not empty.
func ParseClose(payload []byte) (code uint16, reason string, err error) {
	if len(payload) < 2 {
		return 0, "", errors.New("close frame without a whole code")
	}
	code, reason = binary.BigEndian.Uint16(payload), string(payload[2:])
	switch {
	case !mayClose(code):
		err = errors.New("close frame with a code that may not be sent")
	case !utf8.ValidString(reason):
		err = errors.New("close frame with a reason that is not valid UTF-8")
	}
	return code, reason, err
}

// mayClose reports whether a peer may send this code: 1004 to 1006 and 1015 are never sent, others below 3000 are
// not assigned.
func mayClose(code uint16) bool {
	return code >= 1000 && code <= 1003 || code >= 1007 && code <= 1014 || code >= 3000
}
