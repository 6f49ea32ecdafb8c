package server

import (
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// A Tracer makes spans of what a server does. Nothing waits for it. internal/span has one; most servers have none.
type Tracer interface {
	// Begin begins the span of a request. trace is what the client has sent; nil: nothing. The result is nil if the span is not recorded.
	Begin(method string, trace *wire.Trace) RequestSpan

	// Counts is how many spans have arrived at their collector, and how many were dropped.
	Counts() (exported, dropped uint64)
}

// A RequestSpan is the span of a request that is not answered yet.
type RequestSpan interface {
	Trace() *wire.Trace                        // of what happens for the request
	Command() *launch.Trace                    // begins the span of the life of a command, of which the start may still fail
	Sandbox(kind string, begin, end time.Time) // the sandbox of a command was made
	End(session, peer, failure string)         // failure is the error in the answer, or empty
}

// beginSpan begins the span of a request, if it is to be recorded.
func (r *request) beginSpan() {
	if tracer := r.conn.server.config.Spans; tracer != nil {
		if r.span = tracer.Begin(r.Method, r.Trace); r.span != nil {
			r.Trace = r.span.Trace()
		}
	}
}

// endSpan ends the span of a request with its answer.
func (r *request) endSpan(failure string) {
	if r.span != nil {
		r.span.End(r.attachment.Session.Public, r.conn.origin.Client.Peer, shortened(failure))
		r.span = nil
	}
}

// shortened cuts a text off after maxLogged bytes.
func shortened(text string) string {
	if len(text) > maxLogged {
		return strings.ToValidUTF8(text[:maxLogged], "") + "…"
	}
	return text
}

// commandTrace returns the trace that a command gets.
func (r *request) commandTrace() *launch.Trace {
	switch {
	case r.Trace == nil:
		return nil
	case r.span == nil:
		return &launch.Trace{Trace: *r.Trace}
	}
	return r.span.Command()
}

// ReplyEncoded answers with a complete message.
func (r *request) ReplyEncoded(msg []byte) {
	r.endSpan("")
	r.Request.ReplyEncoded(msg)
}

// ReplyEncodedLater is as that of rpc.Request.
func (r *request) ReplyEncodedLater(msg []byte, written func()) {
	r.endSpan("")
	r.Request.ReplyEncodedLater(msg, written)
}

// ReplyPieces is as that of rpc.Request.
func (r *request) ReplyPieces(pieces rpc.Pieces) {
	r.endSpan("")
	r.Request.ReplyPieces(pieces)
}
