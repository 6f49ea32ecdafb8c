package session

import (
	"context"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/wire"
)

// current is the attached client's hold on the session; nil: none is attached.
func (s *Session) current() *Attachment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attachment
}

// ask puts a request to the client, as soon as it has its answer to the handshake.
func (s *Session) ask(ctx context.Context, method string, params any) (wire.RawValue, error) {
	a := s.current()
	if a == nil {
		return nil, launch.ErrNoClient
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()
	select {
	case <-a.ready:
	case <-ctx.Done():
		return nil, launch.ErrNoClient
	}
	return a.peer.Ask(ctx, method, params)
}

// tell sends the client a notification, unless it has not had its answer to the
// handshake yet or is far behind.
func (s *Session) tell(method string, params any) {
	a := s.current()
	if a == nil {
		return
	}
	select {
	case <-a.ready:
		a.peer.Tell(method, params)
	default:
	}
}
