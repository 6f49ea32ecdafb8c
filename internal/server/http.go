package server

import (
	"sync"

	"github.com/tetherexec/tether/internal/web"
	"github.com/tetherexec/tether/wire"
)

// maxStreams is how many responses may be streamed to one client at a time: each holds a
// connection to another server.
const maxStreams = 1024

// httpStreams are the responses that are being streamed to a client, by the id of
// their request.
type httpStreams struct {
	mu     sync.Mutex
	active map[string]bool
}

func (s *httpStreams) begin(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active[id] {
		return wire.Errorf(wire.CodeInvalidParams, "http/request streamResponse requestId `%s` is already active", id)
	}
	if len(s.active) >= maxStreams {
		return wire.Errorf(wire.CodeInvalidRequest, "limit reached: %d streamed responses", maxStreams)
	}
	if s.active == nil {
		s.active = map[string]bool{}
	}
	s.active[id] = true
	return nil
}

func (s *httpStreams) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, id)
}

// httpRequest makes a request from this machine. It ends with the connection.
func (r *request) httpRequest(p *wire.HTTPRequestParams) error {
	c := r.conn
	if p.StreamResponse {
		if err := c.streams.begin(p.RequestID); err != nil {
			return err
		}
	}
	response, err := c.server.http.Do(c.rpc.Context(), p)
	switch {
	case err != nil && p.StreamResponse:
		c.streams.end(p.RequestID)
		return err
	case err != nil:
		return err
	case p.StreamResponse:
		r.Reply(response.Head())
		c.tasks.Go(func() { // ends with the body or with the connection
			end := sync.OnceFunc(func() { c.streams.end(p.RequestID) }) // once: afterwards another request may use the id
			defer end()
			c.streamResponse(response, end)
		})
		return nil
	}
	if err := r.Permit(c.rpc.Context(), encodedSize(bufferedFirst)); err != nil {
		response.Body.Close()
		return err
	}
	permitted := bufferedFirst
	whole, err := response.Buffer(func(size int) error {
		if size <= permitted {
			return nil
		}
		if err := r.PermitMore(c.rpc.Context(), encodedSize(size-permitted)); err != nil {
			return err
		}
		permitted = size
		return nil
	})
	if err == nil {
		r.Reply(whole)
	}
	return err
}

// bufferedFirst is how large a body in an answer may be before it needs more than the
// room that every request has.
const bufferedFirst = 1 << 20

// streamResponse sends the body of a response; end is called before its last piece.
func (c *conn) streamResponse(response *web.Response, end func()) {
	var taken int64
	defer func() { c.server.memory.FreeBuffer(taken) }()
	room := func(more int) bool {
		n := int64(more)
		if !c.server.memory.TryBuffer(n) {
			return false
		}
		taken += n
		return true
	}
	response.Deltas(c.rpc.Context(), room, func(d wire.HTTPBodyDelta) error {
		if d.Done { // a client that has received the last piece may use the id again
			end()
		}
		return c.rpc.NotifyLarge(wire.NoteHTTPBodyDelta, d, int(encodedSize(len(d.DeltaBase64))))
	})
}
