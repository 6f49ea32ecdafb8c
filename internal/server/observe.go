package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// observe begins to send a client the events of a process of any session of its principal. It holds
// nothing back: an observer that falls behind is notified of the gap and continues with the
// oldest event that the log still has.
func (r *request) observe(p *wire.ObserveParams) error {
	c := r.conn
	s, err := c.byPublicID(p.SessionID)
	if err != nil {
		return err
	}
	seen, err := s.Observe(p.ProcessID, p.AfterSeq)
	if err != nil {
		return err
	}
	o := &observation{among: &c.observations, conn: c, seen: seen, cursor: seen.Process.Log.Cursor(seen.After)}
	o.visit = o.encode
	o.feed = c.rpc.Feed(o)
	if !o.begin() {
		seen.End()
		return context.Cause(c.rpc.Context())
	}
	r.Reply(wire.ObserveResult{ObserveID: o.id, NextSeq: seen.Process.Log.State().Next})
	o.start()
	return nil
}

func (r *request) unobserve(p *wire.UnobserveParams) (wire.Empty, error) {
	o, known := r.conn.observations.find(p.ObserveID)
	switch {
	case o != nil:
		o.feed.Stop()
		o.end()
	case !known: // a known one has ended by itself
		return wire.Empty{}, wire.Errorf(wire.CodeInvalidRequest, "unknown observation %d", p.ObserveID)
	}
	return wire.Empty{}, nil
}

// observations are the observations of one connection.
type observations struct {
	mu     sync.Mutex
	active map[int64]*observation
	last   int64 // the highest number so far
	ended  bool  // the connection has ended: no further observation begins
}

// find returns an observation; nil if it has ended. known is false if the number was never given.
func (all *observations) find(id int64) (o *observation, known bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.active[id], 1 <= id && id <= all.last
}

// end ends all observations when the connection ends.
func (all *observations) end() {
	all.mu.Lock()
	all.ended = true
	active := slices.Collect(maps.Values(all.active))
	all.mu.Unlock()
	for _, o := range active {
		o.end()
	}
}

// An observation is the rpc.Source that sends one observer the events of one
// process.
type observation struct {
	among         *observations
	id            int64
	seen          *session.Observation
	cursor        *outlog.Cursor
	feed          *rpc.Feed
	visit         func(outlog.Entry)
	batch         *rpc.Batch
	conn          *conn
	shown         *session.Controller // what the observer was told last; used by Next alone
	closed        bool                // the close was sent, or that there will be none; used by Next alone
	stopListening func()              // nil before the answer; guarded by among
}

// begin gives the observation its number. It reports false if the connection has
// ended.
func (o *observation) begin() bool {
	all := o.among
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.ended {
		return false
	}
	all.last++
	o.id = all.last
	if all.active == nil {
		all.active = map[int64]*observation{}
	}
	all.active[o.id] = o
	return true
}

// start lets the events be sent, after the answer, unless the observation has ended
// already.
func (o *observation) start() {
	o.among.mu.Lock()
	defer o.among.mu.Unlock()
	if o.among.active[o.id] == o {
		o.seen.OnController(o.feed.Wake)
		o.stopListening = o.seen.Process.Log.OnAppend(waker(o.feed))
		o.feed.Wake()
	}
}

func (o *observation) end() {
	o.seen.End()
	o.among.mu.Lock()
	defer o.among.mu.Unlock()
	delete(o.among.active, o.id)
	if o.stopListening != nil {
		o.stopListening()
	}
}

// Written implements rpc.Source. An observer pins no entries, so there is nothing
// to release.
func (o *observation) Written() {}

// Next implements rpc.Source.
func (o *observation) Next(b *rpc.Batch) bool {
	o.batch = b
	defer func() { o.batch = nil }()
	if c := o.seen.Process.Controller(); c != o.shown && !o.closed {
		o.shown = c
		o.encodeController()
		return true
	}
	err := o.cursor.Next(o.visit)
	switch {
	case err == nil:
		return true
	case errors.Is(err, outlog.ErrNone):
		return false
	case errors.Is(err, outlog.ErrEvicted):
		first := o.seen.Process.Log.Stats().First
		o.cursor.Seek(first - 1)
		buf := b.Open(notificationOverhead)
		b.Seal(fmt.Appendf(buf, `{"method":"%s","params":{"observeId":%d,"firstSeq":%d}}`, wire.NoteObservedEvicted, o.id, first))
		return true
	case errors.Is(err, outlog.ErrEnded) && !o.closed:
		o.closed = true
		b.Seal(fmt.Appendf(b.Open(notificationOverhead), `{"method":"%s","params":{"observeId":%d}}`, wire.NoteObservedRemoved, o.id))
		return true
	}
	o.end()
	return false
}

func (o *observation) encode(e outlog.Entry) {
	method := wire.NoteObservedOutput
	switch e.Kind {
	case outlog.Exited:
		method = wire.NoteObservedExited
	case outlog.Closed:
		method, o.closed = wire.NoteObservedClosed, true
	}
	b := o.batch.Open(2*notificationOverhead + len(e.Data)*4/3)
	b = fmt.Appendf(b, `{"method":"%s","params":{"observeId":%d,`, method, o.id)
	b = appendEvent(b, o.seen.Process, e)
	o.batch.Seal(append(b, "}}"...))
}

// appendEvent appends the members of an event of a process, as observers and readers of pages get it.
func appendEvent(b []byte, p *session.Process, e outlog.Entry) []byte {
	b = fmt.Appendf(b, `"seq":%d,"timeMs":%d`, e.Seq, e.Time.UnixMilli())
	switch e.Kind {
	case outlog.Output:
		b = appendChunk(b, e)
	case outlog.Exited:
		b = append(b, `,"exitCode":`...)
		b = strconv.AppendInt(b, int64(e.ExitCode), 10)
		b = appendDenial(b, p.Command.Denial())
		b = appendLimit(b, p.Command)
		b = appendFailure(b, p)
		b = appendUsage(b, p)
	case outlog.Closed:
		b = appendSurvivors(b, p)
	}
	return b
}
