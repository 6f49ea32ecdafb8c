package session

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/files/confined"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/proc"
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
	// has digested the last of them.
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

// A Session owns processes. It outlives its connections.
type Session struct {
	ID        string // secret: who knows it can resume the session
	Public    string // shown in lists
	Client    string
	Label     string // may be empty
	CreatedAt time.Time
	Uploads   *upload.Table

	table    *Table
	ttl      time.Duration
	acks     bool
	log      *slog.Logger
	files    *confined.Pool
	launcher *launch.Launcher
	ctx      context.Context // ends with the session
	cancel   context.CancelCauseFunc
	gone     chan struct{} // closed when nothing is left of it

	mu         sync.Mutex
	attachment *Attachment // nil while detached
	detachedAt time.Time
	expiry     *time.Timer
	ended      bool
	processes  map[string]*Process
	survivors  []*proc.Process // of forgotten processes: what they left running
	retention  retention
	observers  int
}

// An Attachment is one peer's hold on a session.
type Attachment struct {
	Session *Session

	peer   Peer
	ctx    context.Context // ends at detach or with the session; its cause says why
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed when the client may be told and asked what it did not ask for

	resumed bool        // processes are followed once the client has read them
	quiet   *time.Timer // starts what the client does not ask about; nil unless resumed
}

// Context ends when the peer loses the session; its cause says why.
func (a *Attachment) Context() context.Context { return a.ctx }

// TTL is how long the session lives while nobody is attached.
func (s *Session) TTL() time.Duration { return s.ttl }

// attachLocked makes peer the attached one.
func (s *Session) attachLocked(peer Peer, resumed bool) *Attachment {
	a := &Attachment{Session: s, peer: peer, resumed: resumed, ready: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(s.ctx)
	s.attachment = a
	if s.expiry != nil {
		s.expiry.Stop()
	}
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
		if s.ended || s.expiredLocked(time.Now()) {
			s.endAndUnlock()
			return nil, fmt.Errorf("%w %s", ErrUnknownSession, id)
		}
		holder := s.attachment
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

func (s *Session) expiredLocked(now time.Time) bool {
	return s.attachment == nil && now.Sub(s.detachedAt) >= s.ttl
}

// Initialized is called once, when a client is ready for notifications.
func (a *Attachment) Initialized() {
	close(a.ready)
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.resumed && a.quiet == nil && s.attachment == a {
		a.quiet = time.AfterFunc(resumeQuiet, a.pushAll)
	}
}

// pushAll pushes every process that the client has not asked about, from the
// oldest event that it is not known to have.
func (a *Attachment) pushAll() {
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attachment != a {
		return
	}
	for _, p := range s.processes {
		if p.child != nil {
			a.catchUpLocked(p)
		}
	}
}

// catchUpLocked pushes p's events from the oldest one on that the client is not
// known to have and that is still kept.
func (a *Attachment) catchUpLocked(p *Process) {
	a.pushLocked(p, max(p.known, p.Log.Stats().First-1), false)
}

// pushLocked pushes p's events from here on, once per attachment.
func (a *Attachment) pushLocked(p *Process, after uint64, paced bool) {
	if a.Session.attachment != a || p.pusher == a {
		return
	}
	p.pusher = a
	a.peer.Push(p, after, paced)
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
	if s.attachment != a {
		return
	}
	s.attachment = nil
	s.detachedAt = time.Now()
	s.retention.pause(s.detachedAt)
	if !s.ended {
		s.expiry = time.AfterFunc(s.ttl, s.expire)
	}
}

// expire ends the session unless somebody has come back in the last moment.
func (s *Session) expire() {
	s.mu.Lock()
	if !s.expiredLocked(time.Now()) {
		s.mu.Unlock()
		return
	}
	s.log.Info("session expired")
	s.endAndUnlock()
}

// End kills all that the session has started and forgets it. It returns when
// nothing is left.
func (s *Session) End() {
	s.mu.Lock()
	s.endAndUnlock()
}

// EndSelf is End at the wish of the session's own client: it learns that nothing
// is left, by answer, before it loses its connection.
func (a *Attachment) EndSelf(answer func()) {
	s := a.Session
	s.mu.Lock()
	if s.attachment == a {
		s.attachment = nil // nobody is evicted meanwhile
	}
	s.endAndUnlock()
	answer()
	a.peer.Evict(ErrEnded)
}

func (s *Session) endAndUnlock() {
	if s.ended {
		s.mu.Unlock()
		<-s.gone
		return
	}
	s.ended = true
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.retention.stop()
	attachment := s.attachment
	var children sync.WaitGroup
	for _, p := range s.processes {
		children.Go(p.end)
	}
	for _, c := range s.survivors {
		children.Go(c.Kill)
	}
	s.mu.Unlock()

	s.cancel(ErrEnded)
	if attachment != nil {
		attachment.peer.Evict(ErrEnded)
	}
	children.Wait()
	s.launcher.Close()
	s.files.Close()
	if err := s.Uploads.Close(); err != nil {
		s.log.Warn("cannot clean up after uploads", "err", err)
	}
	s.table.remove(s)
	close(s.gone)
}

// Running is how many processes of the session have not exited.
func (s *Session) Running() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.child != nil && !p.Log.State().Exited {
			n++
		}
	}
	return n
}

func (s *Session) info() wire.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := wire.SessionInfo{
		SessionID: s.Public, ClientName: s.Client, Label: s.Label, Attached: s.attachment != nil,
		CreatedAtMs: s.CreatedAt.UnixMilli(), TTLMs: uint64(s.ttl.Milliseconds()), Processes: len(s.processes),
	}
	if s.attachment == nil {
		left := uint64(max(0, s.ttl-time.Since(s.detachedAt)).Milliseconds())
		info.ExpiresInMs = &left
	}
	return info
}
