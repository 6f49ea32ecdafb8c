package wire

import (
	"encoding/hex"
	"strings"
)

// A Trace is the trace that a request belongs to (https://www.w3.org/TR/trace-context/). It is not part of the protocol: no answer depends on it.
type Trace struct {
	ID    string // of the trace: 32 lower-case hexadecimal digits
	Span  string // of the span that the sender of the trace was in: 16 of them
	Flags byte
	State string // the tracestate, as it was sent; "" if there is none
}

// Sampled reports whether the client records the trace.
func (t *Trace) Sampled() bool { return t.Flags&1 != 0 }

// Parent returns the trace as a traceparent of version 00.
func (t *Trace) Parent() string {
	return "00-" + t.ID + "-" + t.Span + "-" + hex.EncodeToString([]byte{t.Flags})
}

// ParseTrace returns the trace that a traceparent and a tracestate describe; nil: the traceparent is invalid. An invalid tracestate is left out.
// A later version of the traceparent is read as far as version 00 goes.
func ParseTrace(traceparent, tracestate string) *Trace {
	const length = len("00-") + 32 + len("-") + 16 + len("-00")
	if len(traceparent) < length {
		return nil
	}
	version, rest := traceparent[:2], traceparent[length:]
	id, span, flags := traceparent[3:35], traceparent[36:52], traceparent[53:length]
	switch {
	case traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-':
		return nil
	case !lowerHex(version) || !lowerHex(id) || !lowerHex(span) || !lowerHex(flags):
		return nil
	case version == "ff" || rest != "" && (version == "00" || rest[0] != '-'):
		return nil
	case strings.Trim(id, "0") == "" || strings.Trim(span, "0") == "":
		return nil
	}
	t := &Trace{ID: strings.Clone(id), Span: strings.Clone(span)}
	bits, _ := hex.DecodeString(flags) // it was checked
	t.Flags = bits[0]
	if validTracestate(tracestate) {
		t.State = tracestate
	}
	return t
}

func lowerHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// Limits of a tracestate. The specification lets longer ones be dropped.
const (
	maxTracestate = 512
	maxMembers    = 32
	maxMember     = 256 // of a key, and of a value
)

func validTracestate(s string) bool {
	if len(s) > maxTracestate || strings.Count(s, ",") >= maxMembers {
		return false
	}
	for _, member := range strings.Split(s, ",") {
		if member = strings.Trim(member, " \t"); member == "" {
			continue
		}
		key, value, found := strings.Cut(member, "=")
		if !found || key == "" || value == "" || len(key) > maxMember || len(value) > maxMember ||
			strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789_-*/@") != "" || strings.ContainsRune("_-*/@", rune(key[0])) ||
			strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' || r == '=' }) {
			return false
		}
	}
	return true
}
