package wire

import (
	"encoding/json"
	"fmt"
)

// Error codes of the protocol. A client decides by the code, and by the reason that errors of
// tether's own methods have. Errors of the reference's methods have no reason: where one code
// stands for several conditions, only the text tells them apart. So tether uses the reference's
// texts, and the Go client compares them in one file (client/refusal.go).
const (
	CodeInvalidRequest  = -32600 // malformed message, wrong state, refused input
	CodeMethodNotFound  = -32601
	CodeInvalidParams   = -32602 // parameters that cannot be decoded or are not valid
	CodeInternal        = -32603 // spawn failures and other errors of the operating system
	CodeNotFound        = -32004 // a file or file handle that does not exist
	CodeSessionAttached = -32010 // the session has another live connection; worth retrying
)

// Reasons of errors of methods under tether/, for programs: the member "reason" of the error's data.
// They are never changed. For an error without a reason, the code is enough.
const (
	ErrorUnknownProcess  = "unknownProcess"  // the session has no such process
	ErrorStdinClosed     = "stdinClosed"     // the process takes no more input
	ErrorUploadDiffers   = "uploadDiffers"   // the upload was opened with other parameters
	ErrorDigestMismatch  = "digestMismatch"  // the bytes that arrived do not have the digest of the commit
	ErrorUnknownPort     = "unknownPort"     // the session has no such forwarded connection (any more)
	ErrorUnknownListener = "unknownListener" // the session has no such listener (any more)
	ErrorPortDenied      = "portDenied"      // the server does not forward to this target, or does not listen there
	ErrorPortRefused     = "portRefused"     // the target cannot be reached, or the server cannot listen there
	ErrorReadOnly        = "readOnly"        // the connection may only look; also for methods of the reference
)

// ReasonResumed is the reason of a server that closes a connection because another connection
// has resumed its session: in the close frame, and in answers.
const ReasonResumed = "session has been resumed by another connection"

// ReasonStopping is the reason in the close frame, with code 1001, of a server that shuts down
// and ends its sessions.
const ReasonStopping = "server is shutting down, and its sessions end with it"

// ReasonReplaced is the reason in the close frame, with code 1012, of a server that another process replaces. The
// session can be resumed at once. The server has answered all requests that it has carried out.
const ReasonReplaced = "server is being replaced, and its sessions go on"

// An Error is the error member of an answer.
type Error struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Data    RawValue `json:"data,omitempty"`
}

// Error returns the message alone: the code is for programs.
func (e *Error) Error() string { return e.Message }

// errorData is the data of an error with a reason.
type errorData struct {
	Reason string `json:"reason"`
}

// WithReason returns the error with a reason for programs.
func (e *Error) WithReason(reason string) *Error {
	with := *e
	with.Data, _ = json.Marshal(errorData{reason}) // a string can be encoded
	return &with
}

// Reason is the error's reason for programs; empty: it has none.
func (e *Error) Reason() string {
	var d errorData
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &d) != nil {
		return ""
	}
	return d.Reason
}

// Errorf makes an Error with a formatted message.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
