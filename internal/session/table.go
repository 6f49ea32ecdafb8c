package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/files/confined"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/wire"
)

// Config configures the sessions of a server.
type Config struct {
	Terms   // they may be changed later
	Pool    *outlog.Pool
	Launch  launch.Config
	Uploads *upload.Journal
	Ports   *ports.Room
	Log     *slog.Logger
	Removed func() // called when a session is gone; may be nil
	Events  Events
	Kept    *Kept // where sessions are recorded; nil: they end with this program
}

// A Table holds the sessions of a server.
type Table struct {
	config Config
	ctx    context.Context // ends with the server
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // of Restore

	restoring sync.WaitGroup // Restore in the background
	uploads   atomic.Uint64  // the newest number of an upload

	setting sync.Mutex // guards terms
	terms   Terms

	mu       sync.Mutex
	sessions map[string]*Session // by id, which is a secret
	public   map[string]*Session // by public id
	aside    map[string]Owner    // the owners of sessions that are set aside, by both of their ids
	closed   bool
}

// Terms are settings for new sessions and processes, which keep those they began with.
type Terms struct {
	TTL    time.Duration // how long a detached session lives
	MaxTTL time.Duration // the most that a client may ask for

	Retain     int64 // bytes of output kept per process after they were sent
	SpoolLimit int64 // bytes of unsent output per process
}

// SetTerms changes the settings for sessions and processes that begin from now on.
func (t *Table) SetTerms(terms Terms) {
	t.setting.Lock()
	defer t.setting.Unlock()
	t.terms = terms
}

func (t *Table) termsNow() Terms {
	t.setting.Lock()
	defer t.setting.Unlock()
	return t.terms
}

// NewTable returns an empty table.
func NewTable(c Config) *Table {
	t := &Table{config: c, terms: c.Terms, sessions: map[string]*Session{}, public: map[string]*Session{}}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	return t
}

// Options are what a client may choose when it opens a session.
type Options struct {
	Client string        // its name
	Label  string        // the client's name for the session, shown in lists
	TTL    time.Duration // 0: the server's default
	Acks   bool          // output is kept until the client acknowledges it
	Rights               // they are checked, not chosen
}

// Rights are what the listener knows about a client; see listen.Client. A session that was opened by a client that may only look is resumed only by
// such clients, and they resume no other: they would take over its output.
type Rights struct {
	Principal string
	ReadOnly  bool
	Admin     bool
}

// Over reports whether a client with the rights may use what belongs to a principal.
func (r Rights) Over(principal string) bool { return r.Admin || r.Principal == principal }

// Open begins a session with peer attached.
func (t *Table) Open(o Options, peer Peer) (*Attachment, error) {
	identity := Identity{ID: newUUID(), Public: newPublicID(), Client: o.Client, Label: o.Label, CreatedAt: time.Now(), ReadOnly: o.ReadOnly, Owner: Owner{Principal: o.Principal}}
	s := t.newSession(identity, t.grant(o.TTL), o.Acks)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.admitLocked(s); err != nil {
		s.cancel(err)
		return nil, errors.Join(err, s.release())
	}
	t.sessions[s.ID], t.public[s.Public] = s, s
	s.mu.Lock()
	defer s.mu.Unlock()
	t.config.Events.session(Opened, s)
	return s.attachLocked(peer, false), nil
}

// newSession returns a session that is in no table.
func (t *Table) newSession(identity Identity, ttl time.Duration, acks bool) *Session {
	s := &Session{
		Identity: identity, table: t, acks: acks, log: t.config.Log.With("session", identity.Public), gone: make(chan struct{}),
		holder: holder{ttl: ttl}, processes: processes{byID: map[string]*Process{}},
	}
	s.ctx, s.cancel = context.WithCancelCause(t.ctx)
	s.files = confined.New(confined.Config{Confiner: t.config.Launch.Confiner, Procs: t.config.Launch.Procs, Log: s.log})
	s.launcher = launch.New(t.config.Launch, launch.Owner{Principal: identity.Principal, Ask: s.ask, Tell: s.tell, Keep: s.keepLeftovers, Decided: s.decided}, s.log)
	s.Ports = ports.NewTable(s.ctx, t.config.Ports)
	s.Uploads = upload.New(upload.Config{Journal: t.config.Uploads, Idle: max(uploadIdle, s.TTL()), Record: t.uploadRecorder(s.Public)})
	return s
}

// admitLocked records a new session, unless there must be no more sessions.
func (t *Table) admitLocked(s *Session) error {
	switch {
	case t.closed:
		return ErrEnded
	case len(t.sessions) >= MaxSessions:
		return limitReached(MaxSessions, "sessions")
	}
	return s.record()
}

// uploadIdle is the least time that an upload waits for its next block.
const uploadIdle = time.Hour

// grant returns how long a detached session lives.
func (t *Table) grant(asked time.Duration) time.Duration {
	terms := t.termsNow()
	if asked <= 0 {
		return terms.TTL
	}
	return min(asked, terms.MaxTTL)
}

// Of returns the sessions that a client may use, oldest first, when they are restored.
func (t *Table) Of(r Rights) []*Session {
	own := t.all(func(s *Session) bool { return r.Over(s.Principal) })
	for _, s := range own {
		s.await()
	}
	slices.SortFunc(own, func(a, b *Session) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Public, b.Public))
	})
	return own
}

// all returns the sessions that are wanted, in any order. wanted is called with the table's lock.
func (t *Table) all(wanted func(*Session) bool) []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*Session, 0, len(t.sessions))
	for _, s := range t.sessions {
		if wanted(s) {
			list = append(list, s)
		}
	}
	return list
}

func everySession(*Session) bool { return true }

// List describes the sessions that a client may use.
func (t *Table) List(r Rights) []wire.SessionInfo {
	list := []wire.SessionInfo{}
	for _, s := range t.Of(r) {
		info := s.info()
		if p := s.OwnedBy(); r.Admin && p != lostPrincipal {
			info.Principal = p
		}
		list = append(list, info)
	}
	return list
}

// Close ends all sessions and waits until everything that they started is gone.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.restoring.Wait()
	t.cancel(ErrEnded)
	t.tasks.Wait()
	var ends sync.WaitGroup
	for _, s := range t.all(everySession) {
		s.await()
		ends.Go(s.End)
	}
	ends.Wait()
}

// Len is how many sessions there are.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sessions)
}

// IDs are the secret ids of all sessions, also of those that are set aside.
func (t *Table) IDs() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(t.sessions)), maps.Keys(t.aside))
}

// Load is how many sessions there are, and how many of their processes have not exited. While sessions are being restored, some processes
// are missing.
func (t *Table) Load() (sessions, running int) {
	for _, s := range t.all(everySession) {
		sessions++
		running += s.Running()
	}
	return sessions, running
}

// Attached is how many sessions have a client.
func (t *Table) Attached() (n int) {
	for _, s := range t.all(everySession) {
		if s.Attached() {
			n++
		}
	}
	return n
}

// Output is what processes have printed.
type Output struct {
	Bytes         int64 // by all processes, also those that are forgotten
	Held, Spooled int64 // what is kept, with its overhead, and the part of it on disk
	Blocked       int   // processes that wait because no more can be kept
}

// Output returns the figures of all processes together.
func (t *Table) Output() Output {
	o := Output{Bytes: t.config.Pool.Ended()}
	for _, s := range t.all(everySession) {
		s.output(&o)
	}
	return o
}

func (t *Table) remove(s *Session) {
	t.mu.Lock()
	delete(t.sessions, s.ID)
	delete(t.public, s.Public)
	t.mu.Unlock()
	if t.config.Removed != nil {
		t.config.Removed()
	}
}

// newUUID returns a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// newPublicID returns a short random name. It is independent of the session's id: a
// client that knows only the name cannot resume the session.
func newPublicID() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
