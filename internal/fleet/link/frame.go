package link

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A kind says what a frame is for. It is the first byte of the frame.
type kind byte

const (
	frameOpen  kind = 1 // begins a link; the rest is for the host (see Mux.Open)
	frameData  kind = 2 // a number: where the bytes begin in the stream; the bytes
	frameAck   kind = 3 // a number: how many bytes the reader has consumed
	frameFin   kind = 4 // a number: how many bytes the stream had. No more follow
	frameClose kind = 5 // a Code and a reason: the link has ended
	frameCheck kind = 6 // a number: how many bytes were sent; 1 if the other end is to answer with such a frame and a frameAck, else 0
	frameNote  kind = 7 // a number as in frameData; a message beside the stream, at this place of it
)

// headerSize is the length of the kind and a number.
const headerSize = 1 + 8

// A frame is a decoded frame.
type frame struct {
	kind   kind
	number uint64 // not of frameOpen and frameClose
	rest   []byte
}

var errFrame = errors.New("malformed frame")

// parse decodes a frame. The result refers to b.
func parse(b []byte) (f frame, err error) {
	if len(b) == 0 {
		return f, errFrame
	}
	f.kind, f.rest = kind(b[0]), b[1:]
	switch f.kind {
	case frameOpen:
		return f, nil
	case frameClose:
		if len(f.rest) == 0 {
			return f, errFrame
		}
		return f, nil
	case frameData, frameAck, frameFin, frameCheck, frameNote:
	default:
		return f, errFrame
	}
	if len(b) < headerSize {
		return f, errFrame
	}
	f.number, f.rest = binary.BigEndian.Uint64(b[1:]), b[headerSize:]
	if f.kind == frameCheck && (len(f.rest) != 1 || f.rest[0] > 1) || (f.kind == frameAck || f.kind == frameFin) && len(f.rest) > 0 {
		return f, errFrame
	}
	return f, nil
}

// appendFrame appends a frame that has a number.
func appendFrame(b []byte, k kind, number uint64, rest []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, byte(k)), number)
	return append(b, rest...)
}

// A Code says why a link has ended.
type Code byte

const (
	Closed  Code = 0 // one end has closed it
	Refused Code = 1 // the host does not serve it; the reason says why
	Lost    Code = 2 // a part of the stream is missing
	Unknown Code = 3 // the other end does not know the link: it has been started again
	Misused Code = 4 // the other end does not keep to the rules
	Absent  Code = 5 // the host is not connected to the bus, so it has got nothing
)

// maxReason is the longest reason of a close frame that is used.
const maxReason = 512

// An EndError is why a link has ended, if it was not closed.
type EndError struct {
	Code   Code
	Reason string
}

func (e *EndError) Error() string { return e.Reason }

func appendClose(b []byte, e *EndError) []byte {
	return append(append(b, byte(frameClose), byte(e.Code)), e.Reason...)
}

// parseClose decodes the rest of a close frame. The other end may be hostile, and the reason be shown to a client: it is made printable.
func parseClose(rest []byte) *EndError {
	reason := string(rest[1:min(len(rest), 1+maxReason)])
	return &EndError{Code(rest[0]), strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, reason)}
}
