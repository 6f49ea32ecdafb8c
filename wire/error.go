package wire

import "fmt"

// Error codes of the protocol. Clients decide by the code, never by the text.
const (
	CodeInvalidRequest  = -32600 // malformed message, wrong state, refused input
	CodeMethodNotFound  = -32601
	CodeInvalidParams   = -32602 // parameters that cannot be decoded or make no sense
	CodeInternal        = -32603 // spawn failures and other errors of the operating system
	CodeNotFound        = -32004 // a file or file handle that does not exist
	CodeSessionAttached = -32010 // the session has another live connection; worth retrying
)

// ReasonResumed is what a connection is told whose session another connection has
// resumed: as the reason of its close frame, and in answers.
const ReasonResumed = "session has been resumed by another connection"

// ReasonStopping is what all connections of a server are told that ends with its sessions,
// as the reason of the close frame with code 1001.
const ReasonStopping = "server is shutting down, and its sessions end with it"

// An Error is the error member of an answer.
type Error struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Data    RawValue `json:"data,omitempty"`
}

// Error returns the message alone: the code is for programs.
func (e *Error) Error() string { return e.Message }

// Errorf makes an Error with a formatted message.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
