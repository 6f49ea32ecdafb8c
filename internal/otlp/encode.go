package otlp

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/tetherexec/tether/internal/span"
)

// The messages of the protocol, as far as they are needed: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope     `json:"scope"`
		Spans []message `json:"spans"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	message struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		TraceState string      `json:"traceState,omitempty"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Begin      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Status     status      `json:"status"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		Text   *string `json:"stringValue,omitempty"`
		Number string  `json:"intValue,omitempty"`
	}
	status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	exportResponse struct {
		PartialSuccess struct {
			RejectedSpans json.RawMessage `json:"rejectedSpans"` // a number, or its text
		} `json:"partialSuccess"`
	}
)

// Numbers of the protocol.
const (
	kindInternal = 1
	kindServer   = 2
	statusError  = 2
)

func text(key, s string) attribute { return attribute{key, value{Text: &s}} }

// encode returns the request that exports spans.
func (e *Exporter) encode(batch []*span.Span) []byte {
	spans := make([]message, len(batch))
	for i, s := range batch {
		spans[i] = encodeSpan(s)
	}
	body, err := json.Marshal(exportRequest{[]resourceSpans{{
		Resource:   resource{e.attributes},
		ScopeSpans: []scopeSpans{{scope{"tether", e.config.Version}, spans}},
	}}})
	if err != nil { // no field can fail
		panic(err)
	}
	return body
}

func encodeSpan(s *span.Span) message {
	m := message{
		TraceID: s.Trace, SpanID: s.ID, TraceState: s.State, Parent: s.Parent,
		Name: s.Name, Kind: kindInternal, Begin: nanoseconds(s.Begin), End: nanoseconds(s.End),
	}
	if s.Served {
		m.Kind = kindServer
	}
	for _, f := range s.Facts {
		if f.Text != "" {
			m.Attributes = append(m.Attributes, text(f.Key, f.Text))
		} else {
			m.Attributes = append(m.Attributes, attribute{f.Key, value{Number: strconv.Itoa(f.Number)}})
		}
	}
	if s.Failure != "" {
		m.Status = status{statusError, s.Failure}
	}
	return m
}

func nanoseconds(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
