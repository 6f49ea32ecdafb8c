package session

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/confined"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/wire"
)

// A Session owns processes. It outlives its connections.
type Session struct {
	Identity
	Uploads *upload.Table
	Ports   *ports.Table

	table    *Table
	acks     bool // the client acknowledges output
	log      *slog.Logger
	files    *confined.Pool
	launcher *launch.Launcher
	ctx      context.Context // ends with the session
	cancel   context.CancelCauseFunc
	gone     chan struct{} // closed when everything of the session has ended

	note, endNote *arena.Note // where the session and its end are recorded; nil: nowhere
	ownerNote     *arena.Note // where its principal is recorded; the table's lock guards it

	// restored returns when the processes of an earlier program are back; nil: it has left none.
	restored func()

	mu        sync.Mutex // guards the fields below, and the fields of Process that say so
	holder    holder
	processes processes
	retention retention
	ended     bool
}

// An Identity has the names of a session.
type Identity struct {
	ID        string // secret: a client that knows it can resume the session
	Public    string // shown in lists
	Client    string // the client's name
	Label     string // chosen by the client for lists; may be empty
	CreatedAt time.Time
	ReadOnly  bool // see Rights
	Owner
}

// TTL is how long the session lives while no client is attached.
func (s *Session) TTL() time.Duration { return s.holder.ttl }

// Context ends with the session.
func (s *Session) Context() context.Context { return s.ctx }

// Files returns the file operations in the given sandbox.
func (s *Session) Files(ctx context.Context, sandbox *wire.Sandbox) (files.Files, error) {
	return s.files.Files(ctx, sandbox)
}

// expire ends the session, unless a client has resumed it at the last moment.
func (s *Session) expire() {
	s.mu.Lock()
	if !s.holder.expired(time.Now()) {
		s.mu.Unlock()
		return
	}
	s.log.Debug("session expired")
	s.table.config.Events.session(Expired, s)
	s.endAndUnlock()
}

// End kills everything that the session has started and removes the session. It
// returns when nothing is left.
func (s *Session) End() {
	s.mu.Lock()
	s.endAndUnlock()
}

// EndSelf is End at the request of the session's own client: answer tells the client
// that nothing is left, before its connection ends.
func (a *Attachment) EndSelf(answer func()) {
	s := a.Session
	s.mu.Lock()
	if s.holder.attachment == a {
		s.holder.attachment = nil // it is evicted after the answer
	}
	s.endAndUnlock()
	answer()
	a.peer.Evict(ErrEnded)
}

// endAndUnlock is End for a caller that holds the lock.
func (s *Session) endAndUnlock() {
	if s.ended {
		s.mu.Unlock()
		<-s.gone
		return
	}
	s.ended = true
	s.recordEnd()
	s.holder.stopExpiry()
	s.retention.stopTimer()
	attachment := s.holder.attachment
	var children sync.WaitGroup
	for _, p := range s.processes.byID {
		children.Go(p.end)
	}
	for _, c := range s.processes.leftovers {
		children.Go(c.Kill)
	}
	s.mu.Unlock()

	s.cancel(ErrEnded)
	if attachment != nil {
		attachment.peer.Evict(ErrEnded)
	}
	children.Wait()
	if err := s.release(); err != nil {
		s.log.Warn("cannot clean up after uploads", "err", err)
	}
	s.unrecord()
	s.table.remove(s)
	s.table.config.Events.session(Ended, s)
	close(s.gone)
}

// release frees the resources of a session other than its processes.
func (s *Session) release() error {
	s.launcher.Close()
	s.files.Close()
	s.Ports.Close()
	return s.Uploads.Close()
}

// Over reports whether the session has ended: no client can resume it.
func (s *Session) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Running is how many processes of the session have not exited.
func (s *Session) Running() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes.byID {
		if p.child != nil && !p.Log.State().Exited {
			n++
		}
	}
	return n
}

// output adds what its processes have printed and keep.
func (s *Session) output(o *Output) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes.byID {
		if p.child == nil { // it is starting
			continue
		}
		stats := p.Log.Stats()
		o.Bytes += stats.Output()
		o.Held += stats.Held
		o.Spooled += stats.Spooled
		if stats.Blocked {
			o.Blocked++
		}
	}
}

// Attached reports whether the session has a client.
func (s *Session) Attached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder.attachment != nil
}

func (s *Session) info() wire.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := wire.SessionInfo{
		SessionID: s.Public, ClientName: s.Client, Label: s.Label, Attached: s.holder.attachment != nil,
		CreatedAtMs: s.CreatedAt.UnixMilli(), TTLMs: uint64(s.TTL().Milliseconds()), Processes: len(s.processes.byID),
	}
	if s.holder.attachment == nil {
		left := uint64(max(0, s.holder.left(time.Now())).Milliseconds())
		info.ExpiresInMs = &left
	}
	return info
}
