package executor

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/server"
)

// A client is a client of the fleet, behind a link.
type client struct {
	link *link.Link
	from fleet.LinkSubject // its gateway and the id of the link
	open fleet.Open
	held []string // keys of sessions that it is or was the newest client of; the lock of clients guards it
}

// accept begins to serve a link.
func (e *Executor) accept(l *link.Link, open []byte) {
	o, err := fleet.DecodeOpen(open)
	from, ok := fleet.ParseLink(l.LocalAddr().String())
	if err != nil || !ok {
		l.Abort(link.Misused, "the link cannot be opened: the gateway and this host have different versions")
		return
	}
	l.SetWindow(o.Window)
	c := &client{link: l, from: from, open: o}
	e.clients.add(c)
	if !e.begin(func() { // ends with the link
		e.serve(c)
		l.Close()
		e.clients.remove(c)
	}) {
		l.Abort(link.Refused, "the host is leaving the fleet")
		e.clients.remove(c)
	}
}

// serve serves a client until its link ends.
func (e *Executor) serve(c *client) {
	if c.open.Session != "" {
		old, current := e.clients.take(c, c.open.Session, c.open.Epoch)
		if !current {
			c.link.Abort(link.Refused, "a newer connection of the client has its session")
			return
		}
		if old != nil && e.isGone(old) {
			old.link.Abort(link.Lost, "the client has lost its gateway, and has come back")
		}
		select {
		case <-c.link.Done(): // the client has left; it may have another connection
			return
		default:
		}
	}
	over := e.config.Server.ServeStream(e.serving, rpc.NewWebSocket(newCollector(c.link), nil), server.Origin{
		Client: listen.Client{Peer: c.open.Peer, Principal: c.open.Principal, ReadOnly: c.open.ReadOnly, Admin: c.open.Admin}, Host: e.config.Host.Name,
		Attached: func(id string, ttl time.Duration, resumed bool) {
			key := fleet.SessionKey(id)
			if !resumed || c.open.Session == "" { // the directory does not know the session
				e.clients.take(c, key, firstEpoch)
			}
			e.clients.lives(key)
			note, err := json.Marshal(fleet.Attached{Session: key, TTLMs: uint64(ttl.Milliseconds())})
			if err != nil {
				e.log.Error("a note cannot be encoded", "err", err)
				return
			}
			_ = c.link.Note(note) // if it fails, the link has ended
		},
	})
	if over { // it may have ended before the host knew that it has a link
		for _, key := range e.clients.heldBy(c) {
			e.keyEnded(key)
		}
	}
}

// firstEpoch is the epoch of a new session.
const firstEpoch = 1

// fenceTime is how long the epoch of a session is remembered after its link and the session have ended. The bus delivers no message so late.
const fenceTime = 2 * time.Minute

// clients are the clients of the fleet, and the newest link of each session.
type clients struct {
	mu       sync.Mutex
	all      map[*client]struct{}
	sessions map[string]*newest // by key
}

// newest is the newest link of a session.
type newest struct {
	epoch  uint64    // 0: there was no link in this process
	lives  bool      // the host has the session
	client *client   // nil: the link has ended
	ended  time.Time // if so, or if it does not live any more
}

func (s *clients) add(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeLocked()
	s.all[c] = struct{}{}
}

func (s *clients) makeLocked() {
	if s.all == nil {
		s.all, s.sessions = map[*client]struct{}{}, map[string]*newest{}
	}
}

// take makes c the newest client of a session, and returns the one before. It reports false if another link has the same epoch or
// a newer one.
func (s *clients) take(c *client, session string, epoch uint64) (old *client, current bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.sessions[session]; n != nil {
		if n.epoch >= epoch {
			return nil, false
		}
		old = n.client
	}
	n := &newest{epoch: epoch, client: c}
	if before := s.sessions[session]; before != nil {
		n.lives = before.lives
	}
	s.sessions[session] = n
	c.held = append(c.held, session)
	return old, true
}

// lives notes that the host has a session. It is remembered until over is called.
func (s *clients) lives(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.sessions[session]; n != nil {
		n.lives = true
	}
}

// recorded notes that a session has a record, perhaps of an earlier process. It is remembered until over is called.
func (s *clients) recorded(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeLocked()
	if s.sessions[session] == nil {
		s.sessions[session] = &newest{}
	}
	s.sessions[session].lives = true
}

// over notes that a session has ended, and reports whether it may have a record: it has had a link, or was recorded.
func (s *clients) over(session string, now time.Time) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sessions[session]
	if n == nil || !n.lives {
		return false
	}
	n.lives, n.ended = false, now
	return true
}

// heldBy returns the keys of sessions that a client is or was the newest client of.
func (s *clients) heldBy(c *client) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.held
}

// remove removes a client whose link has ended.
func (s *clients) remove(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
	for _, key := range c.held {
		if n := s.sessions[key]; n != nil && n.client == c {
			n.client, n.ended = nil, time.Now()
		}
	}
}

// forget removes epochs that are no longer needed.
func (s *clients) forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, n := range s.sessions {
		if n.client == nil && !n.lives && now.Sub(n.ended) > fenceTime {
			delete(s.sessions, key)
		}
	}
}

// byGateway returns the clients, by the ids of their gateways.
func (s *clients) byGateway() map[string][]*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := map[string][]*client{}
	for c := range s.all {
		groups[c.from.Gateway] = append(groups[c.from.Gateway], c)
	}
	return groups
}

// abortAll ends all links.
func (s *clients) abortAll(code link.Code, reason string) {
	for _, group := range s.byGateway() {
		for _, c := range group {
			c.link.Abort(code, reason)
		}
	}
}
