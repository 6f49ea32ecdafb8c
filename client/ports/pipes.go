package ports

import (
	"errors"
	"sync"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

// pipes are the forwarded connections of a client.
type pipes struct {
	open             slots.Slots // those of Serve
	opening, closing slots.Slots // requests

	mu   sync.Mutex
	byID map[string]*ports.Pipe
	lost *loss // of the present connection
}

// A loss is the end of a connection of the client.
type loss struct {
	done chan struct{} // closed when err is set
	err  error
}

func newPipes() *pipes {
	return &pipes{
		open: slots.New(MaxOpen), opening: slots.New(maxOpening), closing: slots.New(maxClosing),
		byID: map[string]*ports.Pipe{}, lost: &loss{done: make(chan struct{})},
	}
}

func (s *pipes) add(p *ports.Pipe) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[p.ID] = p
}

func (s *pipes) remove(p *ports.Pipe) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, p.ID)
}

func (s *pipes) find(id []byte) *ports.Pipe {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[string(id)]
}

// watch returns the next loss.
func (s *pipes) watch() *loss {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Lost implements client.Extension.
func (s *pipes) Lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost.err = err
	close(s.lost.done)
	s.lost = &loss{done: make(chan struct{})}
}

// Peek implements client.Peeker: it takes bytes of a target.
func (s *pipes) Peek(msg []byte) (taken bool, err error) {
	n, taken, err := wire.ParsePortData(msg, wire.NotePortData)
	if taken && err == nil {
		if p := s.find(n.ConnectionID); p != nil {
			err = p.Data(n.Offset, n.Chunk, false)
		}
	}
	return taken, err
}

// Notification implements client.Extension. A forwarded connection that is not known has ended here.
func (s *pipes) Notification(_ *client.Link, method string, params []byte) error {
	switch method {
	case wire.NotePortData:
		var n wire.PortData
		if err := wire.Decode(params, &n); err != nil {
			return err
		}
		if p := s.find([]byte(n.ConnectionID)); p != nil {
			return p.Data(n.Offset, n.Chunk, n.End != nil && *n.End)
		}
	case wire.NotePortAcked:
		var n wire.PortAck
		if err := wire.Decode(params, &n); err != nil {
			return err
		}
		if p := s.find([]byte(n.ConnectionID)); p != nil {
			return p.Ack(n.Offset, n.Limit)
		}
	case wire.NotePortFailed:
		var n wire.PortFailed
		if err := wire.Decode(params, &n); err != nil {
			return err
		}
		if p := s.find([]byte(n.ConnectionID)); p != nil {
			p.Failed(errors.New("the target: " + n.Message))
		}
	}
	return nil
}
