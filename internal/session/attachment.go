package session

import (
	"context"
	"fmt"
	"time"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/wire"
)

const (
	// probeTime is how long an attached peer has to prove that it is alive when
	// another connection wants its session.
	probeTime = 500 * time.Millisecond

	// resumeQuiet is how long a resumed client may be silent. After that, the
	// events of processes that it has not read are pushed.
	resumeQuiet = 5 * time.Second
)

// A Peer is the connection that is attached to a session. The connection calls the
// session too: see StartAnswered and BeginPush.
type Peer interface {
	// Push pushes the events of p whose numbers are above after, from now on. They
	// follow every answer that was given before. If paced, only a limited amount is
	// pushed until the client has processed the last of these answers.
	Push(p *Process, after uint64, paced bool)

	// Alive reports whether the peer is alive. It has until the end of ctx to prove
	// it.
	Alive(ctx context.Context) bool

	// HeardSince reports whether the peer has given a sign of life since then, so
	// that messages sent before are likely to have arrived.
	HeardSince(time.Time) bool

	// Ask sends a request to the client and returns its result.
	Ask(ctx context.Context, method string, params any) (wire.RawValue, error)

	// Tell sends a notification, unless the peer is far behind. It never waits.
	Tell(method string, params any)

	// Evict ends the connection and tells the client why: it has lost its session.
	Evict(why error)
}

// An Attachment connects one peer to a session.
type Attachment struct {
	Session *Session

	peer    Peer
	ctx     context.Context // ends at detach or with the session; its cause says why
	cancel  context.CancelCauseFunc
	ready   chan struct{} // closed when notifications and requests may be sent to the client
	resumed bool          // the events of a process are pushed once the client has read it, or after quiet

	// quiet calls pushAll; nil unless resumed and initialized. The session's lock
	// guards it.
	quiet *time.Timer
}

// Context ends when the peer loses the session; its cause says why.
func (a *Attachment) Context() context.Context { return a.ctx }

// A holder records which peer is attached to a session and, while there is none,
// when the session expires. The session's lock guards it.
type holder struct {
	ttl        time.Duration // never changes
	attachment *Attachment   // nil while detached
	detachedAt time.Time
	expiry     *time.Timer // ends a detached session
}

// left is how long a detached session still lives.
func (h *holder) left(now time.Time) time.Duration { return h.ttl - now.Sub(h.detachedAt) }

func (h *holder) expired(now time.Time) bool { return h.attachment == nil && h.left(now) <= 0 }

func (h *holder) stopExpiry() {
	if h.expiry != nil {
		h.expiry.Stop()
	}
}

// attachLocked attaches peer to the session.
func (s *Session) attachLocked(peer Peer, resumed bool) *Attachment {
	a := &Attachment{Session: s, peer: peer, resumed: resumed, ready: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(s.ctx)
	s.holder.attachment = a
	s.holder.stopExpiry()
	s.retention.resume(time.Now())
	s.scheduleForgetLocked()
	return a
}

// Resume attaches peer, whose client has the given rights, to a session. If another peer is attached and proves to be
// alive, the other keeps the session, and the error is ErrAttached. If the other does
// not prove it, it is evicted.
func (t *Table) Resume(ctx context.Context, id string, rights Rights, peer Peer) (*Attachment, error) {
	for {
		s, err := t.find(t.sessions, id, Rights{Principal: rights.Principal}) // Admin lets no client take over the output of another one
		if err != nil {
			return nil, err
		}
		if s.ReadOnly != rights.ReadOnly {
			return nil, fmt.Errorf("%w %s", ErrUnknownSession, id)
		}
		s.mu.Lock()
		if s.ended || s.holder.expired(time.Now()) {
			s.endAndUnlock()
			return nil, fmt.Errorf("%w %s", ErrUnknownSession, id)
		}
		other := s.holder.attachment
		if other == nil {
			a := s.attachLocked(peer, true)
			s.mu.Unlock()
			t.config.Events.session(Resumed, s)
			return a, nil
		}
		s.mu.Unlock()

		probe, cancel := context.WithTimeout(ctx, probeTime)
		alive := other.peer.Alive(probe)
		cancel()
		if alive {
			return nil, fmt.Errorf("session %s %w", id, ErrAttached)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.log.Info("a new connection takes over from one that does not answer")
		t.config.Events.session(TakenOver, s)
		other.detach(ErrResumed)
		other.peer.Evict(ErrResumed)
	}
}

// Detach detaches the peer from the session: the session's time to live begins.
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

// Initialized is called once, when the client is ready for notifications and requests.
func (a *Attachment) Initialized() {
	close(a.ready)
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.resumed && a.quiet == nil && s.holder.attachment == a {
		a.quiet = time.AfterFunc(resumeQuiet, a.pushAll)
	}
}

// pushAll pushes the events of every process that the client has not read, from the
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
// false if a already is, or has lost the session.
func (a *Attachment) claimLocked(p *Process) bool {
	if a.Session.holder.attachment != a || p.pusher == a {
		return false
	}
	p.pusher = a
	return true
}

// StartAnswered is called when the start of a process was just answered. It reports
// whether the peer has to push the events of p whose numbers are above after. If the
// client has changed to another connection since, that one reads them, or its pushAll
// pushes them.
func (a *Attachment) StartAnswered(p *Process) (after uint64, push bool) {
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.holder.attachment; now != nil && now != a && now.quiet != nil {
		now.quiet.Reset(resumeQuiet) // its pushAll may have run before p had started
	}
	return p.missingLocked(), a.claimLocked(p)
}

// ask sends a request to the client, once its handshake is complete.
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

// tell sends the client a notification, unless its handshake is incomplete or it is
// far behind.
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

// current is the present attachment; nil if no peer is attached.
func (s *Session) current() *Attachment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder.attachment
}
