package session

import (
	"context"
	"fmt"
	"time"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/wire"
)

const (
	// probeTime is how long an attached peer has to prove that it is there when
	// another one wants its session.
	probeTime = 500 * time.Millisecond

	// resumeQuiet is how long a resumed client may be silent before the events
	// of processes that it did not ask about are pushed.
	resumeQuiet = 5 * time.Second
)

// A Peer is the connection that is attached to a session.
type Peer interface {
	// Push pushes the events of p behind number after, from now on, behind
	// every answer that was given before. Paced: the client cannot take much until it
	// has processed the last of these answers.
	Push(p *Process, after uint64, paced bool)

	// Alive reports whether the peer is there. It has until ctx is over.
	Alive(ctx context.Context) bool

	// HeardSince reports whether the peer has given a sign of life since then,
	// so that what was sent before is likely to have arrived.
	HeardSince(time.Time) bool

	// Ask puts a request to the client and returns its result.
	Ask(ctx context.Context, method string, params any) (wire.RawValue, error)

	// Tell sends a notification, unless the peer is far behind. It never waits.
	Tell(method string, params any)

	// Evict tells the peer that its session is gone, and why.
	Evict(why error)
}

// An Attachment is one peer's hold on a session.
type Attachment struct {
	Session *Session

	peer    Peer
	ctx     context.Context // ends at detach or with the session; its cause says why
	cancel  context.CancelCauseFunc
	ready   chan struct{} // closed when the client may be told and asked what it did not ask for
	resumed bool          // processes are pushed once the client has read them

	quiet *time.Timer // pushes what the client does not ask about; nil unless resumed. Guarded by the session
}

// Context ends when the peer loses the session; its cause says why.
func (a *Attachment) Context() context.Context { return a.ctx }

// A holder says who is attached to a session and, while no client is, how long the
// session lives on. The session's lock guards it.
type holder struct {
	ttl        time.Duration // never changes
	attachment *Attachment   // nil while detached
	detachedAt time.Time
	expiry     *time.Timer // ends a detached session
}

// left is how long a detached session lives on.
func (h *holder) left(now time.Time) time.Duration { return h.ttl - now.Sub(h.detachedAt) }

func (h *holder) expired(now time.Time) bool { return h.attachment == nil && h.left(now) <= 0 }

func (h *holder) stop() {
	if h.expiry != nil {
		h.expiry.Stop()
	}
}

// attachLocked makes peer the attached one.
func (s *Session) attachLocked(peer Peer, resumed bool) *Attachment {
	a := &Attachment{Session: s, peer: peer, resumed: resumed, ready: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(s.ctx)
	s.holder.attachment = a
	s.holder.stop()
	s.retention.resume(time.Now())
	s.scheduleForgetLocked()
	return a
}

// Resume attaches peer to a session. A peer that is attached already keeps the
// session if it proves to be alive; otherwise it is evicted.
func (t *Table) Resume(ctx context.Context, id string, peer Peer) (*Attachment, error) {
	for {
		t.mu.Lock()
		s := t.sessions[id]
		t.mu.Unlock()
		if s == nil {
			return nil, fmt.Errorf("%w %s", ErrUnknownSession, id)
		}
		s.mu.Lock()
		if s.ended || s.holder.expired(time.Now()) {
			s.endAndUnlock()
			return nil, fmt.Errorf("%w %s", ErrUnknownSession, id)
		}
		holder := s.holder.attachment
		if holder == nil {
			a := s.attachLocked(peer, true)
			s.mu.Unlock()
			return a, nil
		}
		s.mu.Unlock()

		probe, cancel := context.WithTimeout(ctx, probeTime)
		alive := holder.peer.Alive(probe)
		cancel()
		if alive {
			return nil, fmt.Errorf("session %s %w", id, ErrAttached)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.log.Info("a new connection takes over from one that does not answer")
		holder.detach(ErrResumed)
		holder.peer.Evict(ErrResumed)
	}
}

// Detach lets go of the session: its time to live begins.
func (a *Attachment) Detach() { a.detach(context.Canceled) }

func (a *Attachment) detach(why error) {
	a.cancel(why)
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.quiet != nil {
		a.quiet.Stop()
	}
	h := &s.holder
	if h.attachment != a {
		return
	}
	h.attachment, h.detachedAt = nil, time.Now()
	s.retention.pause(h.detachedAt)
	if !s.ended {
		h.expiry = time.AfterFunc(h.ttl, s.expire)
	}
}

// Initialized is called once, when a client is ready for notifications.
func (a *Attachment) Initialized() {
	close(a.ready)
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.resumed && a.quiet == nil && s.holder.attachment == a {
		a.quiet = time.AfterFunc(resumeQuiet, a.pushAll)
	}
}

// pushAll pushes every process that the client has not asked about, from the
// oldest event that it is not known to have.
func (a *Attachment) pushAll() {
	s := a.Session
	s.mu.Lock()
	from := map[*Process]uint64{}
	for _, p := range s.processes.byID {
		if p.child != nil && a.claimLocked(p) {
			from[p] = p.missingLocked()
		}
	}
	s.mu.Unlock()
	for p, after := range from {
		a.peer.Push(p, after, false)
	}
}

// claimLocked makes a the attachment whose peer pushes the events of p. It reports
// false if it is that already, or has lost the session.
func (a *Attachment) claimLocked(p *Process) bool {
	if a.Session.holder.attachment != a || p.pusher == a {
		return false
	}
	p.pusher = a
	return true
}

// StartAnswered is called when the start of a process was just answered. It reports
// whether the peer is to push the events of p behind number after. If the client has
// lost its connection since, the next one asks for them, or gets them like all that it
// does not ask for.
func (a *Attachment) StartAnswered(p *Process) (after uint64, push bool) {
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.holder.attachment; now != nil && now != a && now.quiet != nil {
		now.quiet.Reset(resumeQuiet)
	}
	return p.missingLocked(), a.claimLocked(p)
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

// current is the attachment of the client; nil: none is attached.
func (s *Session) current() *Attachment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder.attachment
}
