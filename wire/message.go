package wire

import (
	"encoding/json"
	"errors"
	"strconv"
)

// RawValue is the text of one JSON value in a message.
type RawValue = json.RawMessage

// An ID names a request: a string or a signed 64-bit integer. IDs are
// comparable; the string "1" and the number 1 differ. The zero ID is the
// number 0.
type ID struct {
	text   string
	number int64
	isText bool
}

// StringID returns a string id.
func StringID(s string) ID { return ID{text: s, isText: true} }

// IntID returns an integer id.
func IntID(n int64) ID { return ID{number: n} }

// Int returns the integer of an integer id.
func (id ID) Int() (n int64, ok bool) { return id.number, !id.isText }

// String returns the id for logs: the bare text or the number in decimal.
func (id ID) String() string {
	if id.isText {
		return id.text
	}
	return strconv.FormatInt(id.number, 10)
}

// AppendJSON appends the id as JSON.
func (id ID) AppendJSON(b []byte) []byte {
	if id.isText {
		return AppendString(b, id.text)
	}
	return strconv.AppendInt(b, id.number, 10)
}

// Kind is the form of a message.
type Kind uint8

// The forms of a message.
const (
	KindRequest      Kind = iota + 1 // id and method
	KindNotification                 // method, no id
	KindResponse                     // id and result
	KindError                        // id and error
)

// A Message is a parsed envelope. Params, Result and Err.Data alias the bytes
// given to Parse.
type Message struct {
	Kind   Kind
	ID     ID       // not in notifications
	Method string   // requests and notifications
	Params RawValue // nil when absent
	Result RawValue // responses
	Err    *Error   // errors
	Trace  *Trace   // requests; nil: none, or one that is invalid
}

// Parse reads one message. It checks the whole text, parameters and results
// included, so that later decoding meets no malformed JSON. The text of an
// error is for the peer.
func Parse(data []byte) (Message, error) {
	var (
		members envelope
		keys    [16]seenKey
	)
	s := scanner{data: data, keys: keys[:0], top: &members}
	object := s.peek() == '{'
	if err := s.value(); err != nil {
		return Message{}, err
	}
	if !object {
		return Message{}, errNotObject
	}
	m, err := members.message()
	if err != nil {
		return Message{}, err
	}
	return m, s.end()
}

// An envelope collects the known members of a message, in the order of the text. The order
// decides which error is reported first.
type envelope struct {
	members [memberCount]member
	n       int
	has     [memberCount]bool
}

type member struct {
	kind memberKind
	raw  []byte
}

type memberKind uint8

const (
	memberID memberKind = iota
	memberMethod
	memberParams
	memberResult
	memberError
	memberTrace
	memberCount
)

func (e *envelope) add(key, raw []byte) {
	var kind memberKind
	switch string(key) {
	case "id":
		kind = memberID
	case "method":
		kind = memberMethod
	case "params":
		kind = memberParams
	case "result":
		kind = memberResult
	case "error":
		kind = memberError
	case "trace":
		kind = memberTrace
	default:
		return
	}
	e.members[e.n] = member{kind, raw}
	e.n++
	e.has[kind] = true
}

// message decides the form and reads the members that belong to it.
func (e *envelope) message() (m Message, err error) {
	switch {
	case e.has[memberMethod] && e.has[memberID]:
		m.Kind = KindRequest
	case e.has[memberMethod]:
		m.Kind = KindNotification
	case e.has[memberResult]:
		m.Kind = KindResponse
	default:
		m.Kind = KindError
	}
	for _, member := range e.members[:e.n] {
		switch raw := member.raw; {
		case member.kind == memberID:
			m.ID, err = parseID(raw)
		case member.kind == memberMethod:
			m.Method, err = parseMethod(raw)
		case member.kind == memberParams && e.has[memberMethod]:
			m.Params = raw
		case member.kind == memberResult && m.Kind == KindResponse:
			m.Result = raw
		case member.kind == memberError && m.Kind == KindError:
			m.Err, err = parseError(raw)
		case member.kind == memberTrace && m.Kind == KindRequest:
			m.Trace, err = parseTrace(raw)
		}
		if err != nil {
			return Message{}, err
		}
	}
	switch {
	case m.Kind == KindError && m.Err == nil:
		return Message{}, missingField("error")
	case m.Kind != KindNotification && !e.has[memberID]:
		return Message{}, missingField("id")
	}
	return m, nil
}

// traceContext is the trace member of a request.
type traceContext struct {
	Traceparent *string `json:"traceparent"`
	Tracestate  *string `json:"tracestate"`
}

func parseTrace(raw []byte) (*Trace, error) {
	var c *traceContext
	if err := Decode(raw, &c); err != nil || c == nil || c.Traceparent == nil {
		return nil, err
	}
	state := ""
	if c.Tracestate != nil {
		state = *c.Tracestate
	}
	return ParseTrace(*c.Traceparent, state), nil
}

var errBadID = errors.New("data did not match any variant of untagged enum RequestId")

func parseID(raw []byte) (ID, error) {
	if raw[0] == '"' {
		var id ID
		id.isText = true
		return id, Decode(raw, &id.text)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return ID{}, errBadID
	}
	return IntID(n), nil
}

// methodNames saves an allocation for frequent methods.
var methodNames = func() map[string]string {
	names := make(map[string]string)
	for _, name := range []string{
		MethodInitialize, MethodInitialized, MethodEnvironmentInfo, MethodEnvironmentStatus,
		MethodProcessStart, MethodProcessRead, MethodProcessWrite, MethodProcessSignal,
		MethodProcessTerminate, NoteProcessOutput, NoteProcessExited, NoteProcessClosed,
		MethodFsGetMetadata, MethodAck,
	} {
		names[name] = name
	}
	return names
}()

func parseMethod(raw []byte) (string, error) {
	if len(raw) > 2 {
		if name, ok := methodNames[string(raw[1:len(raw)-1])]; ok && raw[0] == '"' {
			return name, nil
		}
	}
	var name string
	err := Decode(raw, &name)
	return name, err
}

// errorMember is the error member of a message.
type errorMember struct {
	Code    int64     `json:"code"`
	Message string    `json:"message"`
	Data    *RawValue `json:"data"`
}

func parseError(raw []byte) (*Error, error) {
	var e errorMember
	if err := Decode(raw, &e); err != nil {
		return nil, err
	}
	out := &Error{Code: int(e.Code), Message: e.Message}
	if e.Data != nil {
		out.Data = *e.Data
	}
	return out, nil
}
