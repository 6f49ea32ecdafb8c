package session

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newTable returns a table whose sessions live for an hour. It can start processes
// only if procs is set.
func newTable(t *testing.T, procs *proc.Supervisor) *Table {
	return NewTable(Config{
		Terms: Terms{TTL: time.Hour, MaxTTL: 24 * time.Hour}, Launch: launch.Config{Procs: procs},
		Pool: outlog.NewPool(t.TempDir(), 1<<30), Log: slog.New(slog.DiscardHandler),
	})
}

func newSupervisor(t *testing.T) *proc.Supervisor {
	s := proc.New(proc.Config{})
	t.Cleanup(s.Close)
	return s
}

// finished returns a child that has ended and left no processes.
func finished(t *testing.T) *proc.Process {
	t.Helper()
	log := outlog.New(outlog.NewPool(t.TempDir(), 1<<20), outlog.Config{})
	t.Cleanup(log.End)
	child, err := newSupervisor(t).Start(t.Context(), proc.Spec{Argv: []string{"/bin/true"}, Dir: "/"}, log)
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	return child
}

// A fakePeer records the calls of a session.
type fakePeer struct {
	alive   bool // otherwise Alive waits until ctx ends
	silent  bool // HeardSince reports false
	pushes  chan pushed
	evicted error
	locked  bool // Push was called with the session's lock held
}

type pushed struct {
	id    string
	after uint64
	paced bool
	at    time.Time
}

func newPeer() *fakePeer { return &fakePeer{alive: true, pushes: make(chan pushed, 100)} }

func (p *fakePeer) Push(process *Process, after uint64, paced bool) {
	if mu := &process.session.mu; mu.TryLock() {
		mu.Unlock()
	} else {
		p.locked = true
	}
	p.pushes <- pushed{process.ID, after, paced, time.Now()}
}

func (p *fakePeer) Alive(ctx context.Context) bool {
	if !p.alive {
		<-ctx.Done()
	}
	return p.alive
}

func (p *fakePeer) HeardSince(time.Time) bool { return !p.silent }

func (p *fakePeer) Ask(context.Context, string, any) (wire.RawValue, error) {
	return nil, errors.New("the fake peer does not answer")
}

func (p *fakePeer) Tell(string, any) {}

func (p *fakePeer) Evict(why error) { p.evicted = why }

func open(t *testing.T, table *Table, w Options) *Attachment {
	t.Helper()
	a, err := table.Open(w, newPeer())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func resume(t *testing.T, table *Table, s *Session) (*Attachment, *fakePeer) {
	t.Helper()
	peer := newPeer()
	a, err := table.Resume(t.Context(), s.ID, Rights{}, peer)
	if err != nil {
		t.Fatal(err)
	}
	return a, peer
}

// adopt adds a process with the given child, as if s had started it.
func adopt(s *Session, id string, child *proc.Process) *Process {
	p := s.newProcess(&wire.StartParams{ProcessID: id})
	if err := p.open(nil); err != nil {
		panic(err)
	}
	p.child = child
	close(p.started)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes.byID[id] = p
	return p
}

// startAnswered does what a connection does when it has answered a start.
func startAnswered(a *Attachment, p *Process) {
	if after, push := a.StartAnswered(p); push {
		a.peer.Push(p, after, false)
	}
}

// read does what a connection does with process/read.
func read(t *testing.T, a *Attachment, id string, after uint64) Page {
	t.Helper()
	r, err := a.Read(&wire.ReadParams{ProcessID: id, AfterSeq: &after})
	if err != nil {
		t.Fatal(err)
	}
	page, err := r.Collect(func(outlog.Entry) {})
	if err != nil {
		t.Fatal(err)
	}
	if push, paced := r.BeginPush(); push {
		r.Process.Log.Sent(page.Next - 1)
		a.peer.Push(r.Process, page.Next-1, paced)
	}
	return page
}
