// Package span makes spans of what a server does: which piece of work belongs to which trace, and how long it took. It has no I/O; internal/otlp
// exports spans.
//
// It follows the client: the span of a request is a part of the span that the client has sent, and is recorded if the client samples the trace.
package span

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/wire"
)

// A Span is one piece of work. Its texts are short, and contain no secrets: the server sees to that.
type Span struct {
	Trace  string // the id of its trace: 32 hexadecimal digits
	ID     string // 16 hexadecimal digits
	Parent string // the id of the span that it is a part of; "": none
	State  string // the tracestate

	Name       string
	Served     bool // it is a request of a client
	Begin, End time.Time
	Facts      []Fact
	Failure    string // "": there was none
}

// A Fact is an attribute of a span. If Text is empty, its value is Number.
type Fact struct {
	Key    string
	Text   string
	Number int
}

// A Recorder takes the spans that have ended. It never waits.
type Recorder interface {
	Record(*Span)
	Counts() (exported, dropped uint64) // see server.Tracer
}

// A Tracer is a server.Tracer for a recorder.
type Tracer struct{ Recorder }

// frequent are the methods whose requests begin no trace of their own: clients call them again and again for the same output, input or file.
var frequent = map[string]bool{
	wire.MethodProcessRead: true, wire.MethodProcessWrite: true, wire.MethodFsReadBlock: true, wire.MethodFsWriteBlock: true, wire.MethodUploadWrite: true,
}

// Begin implements server.Tracer.
func (t Tracer) Begin(method string, trace *wire.Trace) server.RequestSpan {
	switch {
	case trace == nil && frequent[method], trace != nil && !trace.Sampled():
		return nil
	case trace == nil:
		trace = &wire.Trace{ID: newID(16), Flags: 1}
	}
	return &request{tracer: t, span: begin(trace, method), flags: trace.Flags}
}

// begin begins a span in that of a trace.
func begin(in *wire.Trace, name string) *Span {
	return &Span{Trace: in.ID, ID: newID(8), Parent: in.Span, State: in.State, Name: name, Begin: time.Now()}
}

func newID(size int) string {
	b := make([]byte, size)
	rand.Read(b)
	b[0] |= 1 // ids of zeros are invalid
	return hex.EncodeToString(b)
}

// end records a span.
func (t Tracer) end(s *Span, failure string, facts ...Fact) {
	s.End, s.Failure, s.Facts = time.Now(), failure, facts
	t.Record(s)
}

// A request is the span of a request.
type request struct {
	tracer Tracer
	span   *Span
	flags  byte
}

// inside is the trace of what happens in a span.
func (r *request) inside(s *Span) wire.Trace {
	return wire.Trace{ID: s.Trace, Span: s.ID, Flags: r.flags, State: s.State}
}

// Trace implements server.RequestSpan.
func (r *request) Trace() *wire.Trace {
	t := r.inside(r.span)
	return &t
}

// Command implements server.RequestSpan.
func (r *request) Command() *launch.Trace {
	s := begin(r.Trace(), "command")
	return &launch.Trace{Trace: r.inside(s), Life: &life{r.tracer, s}}
}

// Sandbox implements server.RequestSpan.
func (r *request) Sandbox(kind string, from, to time.Time) {
	s := begin(r.Trace(), "sandbox")
	s.Begin, s.End, s.Facts = from, to, []Fact{{Key: "tether.sandbox", Text: kind}}
	r.tracer.Record(s)
}

// End implements server.RequestSpan.
func (r *request) End(session, peer, failure string) {
	r.span.Served = true
	r.tracer.end(r.span, failure, Fact{Key: "rpc.system", Text: "jsonrpc"}, Fact{Key: "rpc.method", Text: r.span.Name},
		Fact{Key: "tether.session", Text: session}, Fact{Key: "client.address", Text: peer})
}

// A life is the span of a command's life.
type life struct {
	tracer Tracer
	span   *Span
}

// End implements launch.Life.
func (l *life) End(session, process, program, kind string, code int) {
	l.tracer.end(l.span, "", Fact{Key: "process.command", Text: program}, Fact{Key: "process.exit.code", Number: code},
		Fact{Key: "tether.exit", Text: kind}, Fact{Key: "tether.process", Text: process}, Fact{Key: "tether.session", Text: session})
}
