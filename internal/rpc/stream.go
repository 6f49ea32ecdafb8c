package rpc

import (
	"fmt"
	"time"
)

// Limits of a message stream.
const (
	// MaxMessage is the largest message that is read.
	MaxMessage = 64 << 20

	// maxFrame is the largest WebSocket frame that is sent: the reference client
	// refuses frames above 16 MiB, so larger messages leave in fragments.
	maxFrame = 8 << 20
)

// A Stream carries whole messages. One goroutine reads, another one writes.
type Stream interface {
	// Read returns the next message, which belongs to the caller. A *CloseError
	// tells why the peer's bytes cannot be understood.
	Read() ([]byte, error)

	// Open and Seal put a message into a buffer, framed for this stream: Open
	// makes room for the framing of about size bytes, the caller appends the
	// message, Seal completes what was opened at the offset mark.
	Open(b []byte, size int) []byte
	Seal(b []byte, mark, size int) []byte

	// Write sends a buffer of framed messages.
	Write(b []byte) error

	// WriteMessage frames and sends one message of any size.
	WriteMessage(msg []byte) error

	// Control appends a control frame, on streams that have such.
	Control(b []byte, kind Control, payload []byte) []byte

	// OnControl is called before the first Read with the function that is told
	// about pings and pongs, by the goroutine that reads.
	OnControl(func(kind Control, payload []byte))

	// Heard is when bytes last arrived from the peer.
	Heard() time.Time

	// Acknowledged counts the bytes that the peer is known to have received; it
	// is 0 where nobody can tell.
	Acknowledged() uint64

	// Close ends the stream at once; Read and Write return.
	Close() error
}

// Control is the kind of a control frame.
type Control uint8

// The control frames.
const (
	Ping Control = iota + 1
	Pong
	Goodbye
)

// A CloseError is the reason for ending a connection; peers that can see it are
// told.
type CloseError struct {
	Code   uint16 // WebSocket close code
	Reason string
}

func (e *CloseError) Error() string { return fmt.Sprintf("%s (close code %d)", e.Reason, e.Code) }

// WebSocket close codes.
const (
	CloseNormal     = 1000
	CloseGoingAway  = 1001
	CloseProtocol   = 1002
	CloseBadData    = 1007
	ClosePolicy     = 1008
	CloseTooBig     = 1009
	closeReasonSize = 123 // what fits into a control frame beside the code
)
