package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// observe begins to show a client the events of a process of any session. It
// holds nothing back: an observer that falls behind is told so and goes on with
// the oldest event that is left.
func (r *request) observe(p *wire.ObserveParams) error {
	c := r.conn
	s, err := c.server.sessions.ByPublicID(p.SessionID)
	if err != nil {
		return err
	}
	seen, err := s.Observe(p.ProcessID, p.AfterSeq)
	if err != nil {
		return err
	}
	o := &observation{conn: c, seen: seen, cursor: seen.Process.Log.Cursor(seen.After)}
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
	c := r.conn
	c.mu.Lock()
	o, last := c.observations[p.ObserveID], c.lastObserve
	c.mu.Unlock()
	switch {
	case o != nil:
		o.feed.Stop()
		o.end()
	case p.ObserveID < 1 || p.ObserveID > last: // else it has ended by itself
		return wire.Empty{}, wire.Errorf(wire.CodeInvalidRequest, "unknown observation %d", p.ObserveID)
	}
	return wire.Empty{}, nil
}

func (c *conn) endObservations() {
	c.mu.Lock()
	c.ended = true
	all := make([]*observation, 0, len(c.observations))
	for _, o := range c.observations {
		all = append(all, o)
	}
	c.mu.Unlock()
	for _, o := range all {
		o.end()
	}
}

// An observation is the rpc.Source of an observer.
type observation struct {
	conn          *conn
	id            int64
	seen          *session.Observation
	cursor        *outlog.Cursor
	feed          *rpc.Feed
	visit         func(outlog.Entry)
	batch         *rpc.Batch
	stopListening func() // nil before the answer; guarded by the connection
}

// begin gives the observation its number. It fails when the connection has
// ended.
func (o *observation) begin() bool {
	c := o.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.lastObserve++
	o.id = c.lastObserve
	if c.observations == nil {
		c.observations = map[int64]*observation{}
	}
	c.observations[o.id] = o
	return true
}

// start lets the events out, behind the answer, unless it is over already.
func (o *observation) start() {
	c := o.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.observations[o.id] == o {
		o.stopListening = o.seen.Process.Log.OnAppend(waker(o.feed))
		o.feed.Wake()
	}
}

func (o *observation) end() {
	o.seen.End()
	o.conn.mu.Lock()
	defer o.conn.mu.Unlock()
	delete(o.conn.observations, o.id)
	if o.stopListening != nil {
		o.stopListening()
	}
}

// Written implements rpc.Source: an observer pins nothing.
func (o *observation) Written() {}

// Next implements rpc.Source.
func (o *observation) Next(b *rpc.Batch) bool {
	o.batch = b
	defer func() { o.batch = nil }()
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
		method = wire.NoteObservedClosed
	}
	b := o.batch.Open(2*notificationOverhead + len(e.Data)*4/3)
	b = fmt.Appendf(b, `{"method":"%s","params":{"observeId":%d,"seq":%d,"timeMs":%d`, method, o.id, e.Seq, e.Time.UnixMilli())
	switch e.Kind {
	case outlog.Output:
		b = appendChunk(b, e)
	case outlog.Exited:
		b = append(b, `,"exitCode":`...)
		b = strconv.AppendInt(b, int64(e.ExitCode), 10)
		b = appendDenial(b, o.seen.Process.Command.Denial())
	}
	o.batch.Seal(append(b, "}}"...))
}
