package web

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/internal/inbox"
	"github.com/tetherexec/tether/wire"
)

// Limits of streamed bodies.
const (
	maxDelta       = 1 << 20  // bytes of one delta; a larger one ends the connection
	maxDeltas      = 256      // deltas of one body that wait to be read
	maxQueuedBytes = 16 << 20 // bytes of all bodies that wait to be read
)

// bodies are the streamed bodies of HTTP responses that have not ended.
type bodies struct {
	mu     sync.Mutex
	last   uint64           // number of the last id
	routes map[string]*body // by id
	queued int              // bytes that wait to be read
}

// A body is the streamed body of an HTTP response. The connection's reader puts deltas into
// its inbox, and does not wait.
type body struct {
	bodies      *bodies
	id          string
	ctx         context.Context
	stopWaiting func() bool // stops waiting for the end of ctx
	inbox       *inbox.Inbox[[]byte]

	// Guarded by bodies.mu.
	seq  uint64 // of the last delta
	rest []byte // of the piece that is being read
	err  error  // is returned after the pieces in the inbox; nil: the body has not ended
}

// open makes a body. It is called before the request is sent, so that no delta comes too early.
// Ids are not used again, so that a late delta of an earlier request is ignored.
func (s *bodies) open(ctx context.Context) *body {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	b := &body{bodies: s, id: "http-" + strconv.FormatUint(s.last, 10), ctx: ctx, inbox: inbox.New[[]byte](maxDeltas)}
	if s.routes == nil {
		s.routes = make(map[string]*body)
	}
	s.routes[b.id] = b
	b.stopWaiting = context.AfterFunc(ctx, func() { b.drop(context.Cause(ctx)) })
	return b
}

// Notification implements client.Extension: it processes a delta.
func (s *bodies) Notification(_ *client.Link, method string, params []byte) error {
	if method != wire.NoteHTTPBodyDelta {
		return nil
	}
	var n wire.HTTPBodyDelta
	if err := wire.Decode(params, &n); err != nil {
		return err
	}
	if len(n.DeltaBase64) > maxDelta {
		return fmt.Errorf("http response body delta exceeds %d bytes", maxDelta)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.routes[n.RequestID]
	if b == nil {
		return nil
	}
	switch err := b.take(&n); {
	case err != nil:
		b.end(err)
	case n.Done:
		b.end(io.EOF)
	}
	return nil
}

// take queues a delta. The caller has bodies.mu.
func (b *body) take(n *wire.HTTPBodyDelta) error {
	fails := func(format string, args ...any) error {
		return &client.ProtocolError{Reason: fmt.Sprintf("http response stream `%s` "+format, append([]any{b.id}, args...)...)}
	}
	switch s := b.bodies; {
	case n.Error != nil:
		return fails("failed: %s", *n.Error)
	case n.Seq != b.seq+1:
		return fails("received seq %d, expected %d", n.Seq, b.seq+1)
	case len(n.DeltaBase64) == 0:
	case s.queued+len(n.DeltaBase64) > maxQueuedBytes:
		return fails("failed: queued body deltas exceed %d bytes", maxQueuedBytes)
	case !b.inbox.Put(n.DeltaBase64):
		return fails("failed: body delta channel filled before delivery")
	default:
		s.queued += len(n.DeltaBase64)
	}
	b.seq = n.Seq
	return nil
}

// end sets the error that follows the pieces in the inbox. The caller has bodies.mu.
func (b *body) end(err error) {
	if b.err == nil {
		b.err = err
	}
	delete(b.bodies.routes, b.id)
	b.stopWaiting()
	b.inbox.Wake.Send()
}

// Lost implements client.Extension: it ends all bodies of the connection.
func (s *bodies) Lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.routes {
		b.end(err)
	}
}

// drop ends a body that is not needed any more.
func (b *body) drop(err error) {
	s := b.bodies
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, delta := range b.inbox.Clear() {
		s.queued -= len(delta)
	}
	s.queued -= len(b.rest)
	b.rest = nil
	if b.err != nil && b.err != io.EOF {
		err = b.err
	}
	b.err = nil
	b.end(err)
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := b.some(p)
		if n > 0 || err != nil {
			return n, err
		}
		<-b.inbox.Wake // this ends: the body ends at the latest with its context or the client
	}
}

// some reads bytes that have arrived.
func (b *body) some(p []byte) (int, error) {
	s := b.bodies
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.rest) == 0 {
		delta, ok := b.inbox.Take()
		if !ok {
			return 0, b.err
		}
		b.rest = delta
	}
	n := copy(p, b.rest)
	s.queued -= n
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.drop(errBodyClosed)
	return nil
}
