package rpc

import (
	"fmt"
	"io"
	"time"
)

// Limits of a message stream.
const (
	// MaxMessage is the largest message that is read.
	MaxMessage = 64 << 20

	// maxFrame is the largest WebSocket frame that WriteMessage sends: the
	// reference client refuses frames above 16 MiB, so larger messages leave in
	// fragments.
	maxFrame = 8 << 20
)

// A Stream carries whole messages. One goroutine reads, another one writes.
type Stream interface {
	// Read returns the next message, which belongs to the caller. A *CloseError
	// tells why the peer's bytes cannot be understood.
	Read() ([]byte, error)

	// Open and Seal put a message into a buffer, framed for this stream: Open makes
	// room for the framing of about size bytes, the caller appends the message,
	// Seal completes the message that was opened at the offset mark. Messages of
	// more than maxFrame go through WriteMessage.
	Open(b []byte, size int) []byte
	Seal(b []byte, mark, size int) []byte

	// Write sends a buffer of framed messages.
	Write(b []byte) error

	// TryWrite sends as much of such a buffer as can be sent without waiting,
	// possibly nothing.
	TryWrite(b []byte) (int, error)

	// WriteMessage frames and sends one message of any size. It may change msg.
	WriteMessage(msg []byte) error

	// WritePart sends a part of a message, of at most maxFrame, and may change it.
	// Between the parts of a message nothing but control frames may be written.
	WritePart(part []byte, first, last bool) error

	// Control appends a control frame. On a stream without control frames it
	// appends nothing.
	Control(b []byte, kind Control, payload []byte) []byte

	// OnControl sets the function that is called for pings and pongs, before the
	// first Read. The goroutine that reads calls it.
	OnControl(func(kind Control, payload []byte))

	// LastRead is when bytes last arrived from the peer, by the monotonic clock.
	LastRead() time.Time

	// Received counts the bytes that have arrived from the peer.
	Received() uint64

	// Acknowledged counts the bytes that the peer is known to have received. It is
	// 0 for a stream that cannot know.
	Acknowledged() uint64

	// Unacknowledged reports whether bytes were written that the peer is not known
	// to have received. It is false for a stream that cannot know.
	Unacknowledged() bool

	// CloseWrite tells the peer that nothing follows. A stream that cannot close
	// only its writing half is closed.
	CloseWrite() error

	// Drain discards bytes of the peer until the peer ends or the stream is closed.
	// Otherwise a reset could overtake the close frame.
	Drain()

	// Close ends the stream at once; Read, Write and Drain return. Closing
	// twice does no harm.
	Close() error
}

// limited is a Stream whose messages need room. limit is called before the first Read.
// If there is no room for a message, Read returns its first headSize bytes and
// errRefused.
type limited interface{ limit(*arrival) }

// Control is the kind of a control frame.
type Control uint8

// The control frames.
const (
	Ping Control = iota + 1
	Pong
	CloseFrame
)

// A CloseError is the reason for ending a connection. On a WebSocket the peer is
// sent it in a close frame.
type CloseError struct {
	Code   uint16 // WebSocket close code
	Reason string

	byPeer bool // the peer ended the connection properly, with a close frame
}

func (e *CloseError) Error() string { return fmt.Sprintf("%s (close code %d)", e.Reason, e.Code) }

// Unwrap returns io.EOF for a close frame of the peer.
func (e *CloseError) Unwrap() error {
	if e.byPeer {
		return io.EOF
	}
	return nil
}

func violation(code uint16, reason string) *CloseError {
	return &CloseError{Code: code, Reason: reason}
}

// WebSocket close codes.
const (
	CloseNormal    = 1000
	CloseGoingAway = 1001
	CloseProtocol  = 1002
	CloseBadData   = 1007
	ClosePolicy    = 1008
	CloseTooBig    = 1009
	CloseInternal  = 1011
	CloseRestart   = 1012
	CloseTryAgain  = 1013
)
