package wire

import (
	"bytes"
	"strconv"
)

// Methods of forwarded connections. A forwarded connection joins a TCP connection that the client has accepted with one that the server has made
// to a target, or one that the server has accepted with one that the client makes. It belongs to the session, and goes on after a lost connection between client
// and server.
//
// Each direction is a sequence of bytes with offsets from 0. The sender keeps the bytes that are not acknowledged, and sends no byte at or behind the limit of
// the receiver.
const (
	MethodPortOpen  = "tether/port/open"
	MethodPortClose = "tether/port/close"
	MethodPortList  = "tether/port/list"

	MethodPortListen   = "tether/port/listen"
	MethodPortAccept   = "tether/port/accept"
	MethodPortUnlisten = "tether/port/unlisten"

	NotePortWrite = "tether/port/write" // bytes for the target
	NotePortAck   = "tether/port/ack"   // the client has handed on bytes of the target

	NotePortData   = "tether/port/data"   // bytes of the target
	NotePortAcked  = "tether/port/acked"  // the server has handed on bytes to the target
	NotePortFailed = "tether/port/failed" // the connection to the target has failed
)

// Limits of forwarded connections.
const (
	MaxPortID    = 64       // bytes of a connectionId or a listenerId
	MaxPortChunk = 64 << 10 // bytes of one message

	// PortAckEvery is how many bytes a receiver may have handed on without having acknowledged them. A sender that keeps fewer than twice as many
	// could wait for ever.
	PortAckEvery = 32 << 10
)

// PortOpenParams opens a connection to a target, or continues it after a lost connection.
type PortOpenParams struct {
	ConnectionID string  `json:"connectionId"`   // 1 to 64 bytes that the client has not used before in the session
	Host         *string `json:"host,omitempty"` // a name or an IP address; nil: the server's machine, by its loopback addresses
	Port         uint16  `json:"port"`
	Limit        uint64  `json:"limit"` // the client takes the bytes of the target before this offset

	// ProcessID names a process that listens on the port, or of which a descendant does, in a network of its own. Host is not used then.
	ProcessID *string `json:"processId,omitempty"`
	SessionID *string `json:"sessionId,omitempty"` // public, of the process; nil: the client's own session

	// Received continues a connection: the client has all bytes of the target before this offset. Without it, a connection is opened; if
	// it exists already, because the answer was lost, the answer is the same.
	Received *uint64 `json:"received,omitempty"`
}

// PortOpenResult answers tether/port/open.
type PortOpenResult struct {
	Received uint64 `json:"received"` // the server has all bytes of the client before this offset: continue here
	Limit    uint64 `json:"limit"`    // the server takes the bytes of the client before this offset
}

// PortListenParams lets the server listen on its loopback for the client. If the listener exists already, because the answer was lost, the answer is the same.
type PortListenParams struct {
	ListenerID string  `json:"listenerId"`     // 1 to 64 bytes that the client has not used before in the session
	Host       *string `json:"host,omitempty"` // a loopback address; nil: 127.0.0.1, and ::1 if the server's machine has it
	Port       uint16  `json:"port"`           // 0: any free one
}

// PortListenResult answers tether/port/listen.
type PortListenResult struct {
	Addresses []string `json:"addresses"` // IP
	Port      uint16   `json:"port"`
}

// PortAcceptParams takes the next connection of a listener under an id, or continues it after a lost connection.
type PortAcceptParams struct {
	ListenerID   string `json:"listenerId"`
	ConnectionID string `json:"connectionId"` // see PortOpenParams
	Limit        uint64 `json:"limit"`        // the client takes the bytes of the connection before this offset

	Received *uint64 `json:"received,omitempty"` // see PortOpenParams
}

// PortAcceptResult answers tether/port/accept when there is a connection. Without a peer there is none: the server is being replaced, and the client repeats the
// request on its next connection.
type PortAcceptResult struct {
	Received uint64 `json:"received"` // see PortOpenResult
	Limit    uint64 `json:"limit"`
	Peer     string `json:"peer"` // the address and port of the program that has connected
}

// PortUnlistenParams ends a listener, not the connections that were taken. A listener that is not known has ended already.
type PortUnlistenParams struct {
	ListenerID string `json:"listenerId"`
}

// PortData is the notification tether/port/write or tether/port/data. Bytes that have arrived before are ignored.
type PortData struct {
	ConnectionID string `json:"connectionId"`
	Offset       uint64 `json:"offset"` // of the first byte of the chunk
	Chunk        Base64 `json:"chunk"`
	End          *bool  `json:"end,omitempty"` // true: nothing follows the chunk in this direction
}

// PortAck is the notification tether/port/ack or tether/port/acked.
type PortAck struct {
	ConnectionID string `json:"connectionId"`
	Offset       uint64 `json:"offset"` // all bytes before it were handed on
	Limit        uint64 `json:"limit"`  // bytes before it are taken
}

// PortFailed is the notification tether/port/failed. The bytes that had come from the target before were sent. The client closes the connection.
type PortFailed struct {
	ConnectionID string `json:"connectionId"`
	Message      string `json:"message"`
}

// PortCloseParams ends a forwarded connection. A connection that is not known is closed already.
type PortCloseParams struct {
	ConnectionID string `json:"connectionId"`
	Abort        *bool  `json:"abort,omitempty"` // true: the target sees a reset
}

// PortListParams asks for the TCP sockets on which processes wait for connections.
type PortListParams struct {
	SessionID *string `json:"sessionId,omitempty"` // public; nil: all sessions of the client's principal

	// WaitMs asks for a version. If the list still has the version Seen, the answer waits for another one, at most that long.
	WaitMs *uint64 `json:"waitMs,omitempty"`
	Seen   *string `json:"seen,omitempty"`
}

// PortListResult answers tether/port/list.
type PortListResult struct {
	Listeners []PortListener `json:"listeners"`
	Partial   bool           `json:"partial,omitempty" wire:"default"` // some may be missing: there are too many, or the system hides them
	Version   string         `json:"version,omitempty" wire:"default"` // of the list, if it was asked for
}

// A PortListener is a TCP socket on which a process, or something that it has started, waits for connections.
type PortListener struct {
	SessionID string `json:"sessionId"` // public
	ProcessID string `json:"processId"`
	Address   string `json:"address"` // IP
	Port      uint16 `json:"port"`
	PID       int    `json:"pid"`
	Name      string `json:"name"`                            // of the program
	Inside    bool   `json:"inside,omitempty" wire:"default"` // the process has a network of its own: see processId of PortOpenParams
}

const (
	portID    = `","params":{"connectionId":`
	portStart = `,"offset":`
	portChunk = `,"chunk":"`
	portEnd   = `,"end":true`
	portLimit = `,"limit":`
)

// PortDataOverhead is an upper bound for the size of a PortData message without its id and its chunk.
const PortDataOverhead = 128

// AppendPortData appends the notification tether/port/write or tether/port/data.
func AppendPortData(b []byte, method, id string, offset uint64, chunk []byte, end bool) []byte {
	b = append(appendPortHead(b, method, id), portStart...)
	b = append(strconv.AppendUint(b, offset, 10), portChunk...)
	at := len(b)
	b = append(b, make([]byte, fastBase64.EncodedLen(len(chunk)))...)
	fastBase64.Encode(b[at:], chunk)
	b = append(b, '"')
	if end {
		b = append(b, portEnd...)
	}
	return append(b, "}}"...)
}

// AppendPortAck appends the notification tether/port/ack or tether/port/acked.
func AppendPortAck(b []byte, method, id string, offset, limit uint64) []byte {
	b = append(appendPortHead(b, method, id), portStart...)
	b = append(strconv.AppendUint(b, offset, 10), portLimit...)
	return append(strconv.AppendUint(b, limit, 10), "}}"...)
}

func appendPortHead(b []byte, method, id string) []byte {
	b = append(append(b, `{"method":"`...), method...)
	return AppendString(append(b, portID...), id)
}

// A PortNote is a PortData as ParsePortData reads it. It aliases the message.
type PortNote struct {
	ConnectionID []byte
	Offset       uint64
	Chunk        []byte
}

// ParsePortData reads the notification tether/port/write or tether/port/data in the form in which AppendPortData writes it without an end. For any other
// message it returns taken = false, and Parse has to read it. If taken is true, the message was changed: its chunk is decoded in place.
func ParsePortData(msg []byte, method string) (n PortNote, taken bool, err error) {
	rest, ok := bytes.CutPrefix(msg, []byte(`{"method":"`))
	if !ok || len(rest) < len(method) || string(rest[:len(method)]) != method {
		return n, false, nil
	}
	if rest, ok = bytes.CutPrefix(rest[len(method):], []byte(portID+`"`)); !ok {
		return n, false, nil
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 || !isPlain(rest[:end]) {
		return n, false, nil
	}
	n.ConnectionID, rest = rest[:end], rest[end+1:]
	if rest, ok = bytes.CutPrefix(rest, []byte(portStart)); !ok {
		return n, false, nil
	}
	if n.Offset, rest, ok = cutNumber(rest); !ok {
		return n, false, nil
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(portChunk)); !ok {
		return n, false, nil
	}
	n.Chunk, taken, err = cutChunk(rest)
	return n, taken, err
}
