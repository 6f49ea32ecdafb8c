package client

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/tetherexec/tether/client/internal/inbox"
	"github.com/tetherexec/tether/wire"
)

// Limits of the events that wait for a slow observer. Above them the client stops the
// observation on the server, and continues it after the observer has taken these events.
const (
	maxObserved      = 1024
	maxObservedBytes = 4 << 20
)

// Sessions lists the sessions of the server. Their ids are public: they name a session,
// but are not enough to resume it.
func (c *Client) Sessions(ctx context.Context) ([]wire.SessionInfo, error) {
	if !c.Has(FeatureList) {
		return nil, unsupported("listing sessions")
	}
	var r wire.SessionListResult
	err := c.Call(ctx, Idempotent, wire.MethodSessionList, wire.Empty{}, &r)
	return r.Sessions, err
}

// Processes lists the processes of a session, or of all sessions of this client's principal if the public id is empty.
func (c *Client) Processes(ctx context.Context, sessionID string) ([]wire.ProcessInfo, error) {
	r, err := c.ListProcesses(ctx, sessionID)
	return r.Processes, err
}

// ListProcesses is Processes, with all that the server says: also which killed processes of sessions that have ended are still there.
func (c *Client) ListProcesses(ctx context.Context, sessionID string) (r wire.ListResult, err error) {
	if !c.Has(FeatureList) {
		return r, unsupported("listing processes")
	}
	var params wire.ListParams
	if sessionID != "" {
		params.SessionID = &sessionID
	}
	err = c.Call(ctx, Idempotent, wire.MethodProcessList, params, &r)
	return r, err
}

// Observed is an event of an observed process, with its time. A Gap has no time.
type Observed struct {
	Event
	Time time.Time
}

// An Observation delivers the events of a process of any session, and never blocks that
// process. The events come in order, each once; a Gap stands for events that the server did
// not have any more. After a lost connection Next continues after the last event. An
// Observation is for one goroutine, except Close.
type Observation struct {
	client             *Client
	watchers           *observations
	sessionID, process string
	inbox              *inbox.Inbox[Observed]
	ctx                context.Context // ends with Close
	close              context.CancelFunc

	// Guarded by watchers.mu.
	last  uint64 // number of the last event that was put into the inbox
	bytes int    // of output in the inbox
	route *route // nil: not being observed at the moment
	over  bool   // Closed was put into the inbox

	removed bool // the process is gone: nothing more will be put into the inbox
}

// A route is one observation on one connection.
type route struct {
	link *Link
	id   int64
}

// observations are the observations of a client.
type observations struct {
	mu     sync.Mutex
	routes map[route]*Observation

	// Events may arrive before the goroutine that has asked for them has seen the answer.
	// They wait in an Observation that has no reader.
	asking int // calls that are under way
	early  map[route]*Observation
}

// observationsKey is the key of the observations among the extensions of a client.
type observationsKey struct{}

// Observe observes a process of any session, by the session's public id, from the event
// after afterSeq on; 0: from the first.
func (c *Client) Observe(ctx context.Context, sessionID, processID string, afterSeq uint64) (*Observation, error) {
	if !c.Has(FeatureObserve) {
		return nil, unsupported("observing a process")
	}
	watchers := c.Extend(observationsKey{}, func() Extension { return new(observations) }).(*observations)
	o := &Observation{client: c, watchers: watchers, sessionID: sessionID, process: processID, last: afterSeq, inbox: inbox.New[Observed](maxObserved)}
	o.ctx, o.close = context.WithCancel(context.Background())
	if err := o.attach(ctx); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// attach starts the observation on the present connection. If the context ends first, an
// answer that arrives later still takes effect.
func (o *Observation) attach(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.ctx, cancel)()
	return o.client.Through(ctx, Idempotent, func(l *Link) error {
		c := o.client
		after := o.watchers.ask(o)
		call, err := l.Begin(ctx, wire.MethodProcessObserve,
			wire.ObserveParams{SessionID: o.sessionID, ProcessID: o.process, AfterSeq: &after})
		if err != nil {
			o.watchers.asked()
			return err
		}
		answered := make(chan error, 1)
		spawned := c.spawn(func() {
			defer o.watchers.asked()
			var r wire.ObserveResult
			err := call.Wait(c.ctx, &r)
			if err == nil {
				o.watchers.begin(o, route{l, r.ObserveID})
			}
			answered <- err
		})
		if !spawned {
			o.watchers.asked()
			return c.Status().Err
		}
		select {
		case err := <-answered:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// ask begins a call and returns the last event that the observation has.
func (w *observations) ask(o *Observation) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asking++
	return o.last
}

// begin registers an observation, and delivers the events that arrived early.
func (w *observations) begin(o *Observation, r route) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.link.dead(): // Lost may have run already, and would not detach it again
		return
	case o.ctx.Err() != nil || o.route != nil: // closed, or attached by an earlier call with a late answer
		r.end()
		return
	}
	o.route = &r
	if w.routes == nil {
		w.routes = make(map[route]*Observation)
	}
	w.routes[r] = o
	if before := w.early[r]; before != nil {
		delete(w.early, r)
		all := before.route != nil
		o.removed = before.removed
		for _, e := range before.inbox.Clear() {
			if !o.take(e) {
				all = false
				break
			}
		}
		if !all && !o.over { // there was too much of it
			o.detach()
		}
	}
}

// asked ends a call. At the end of the last call, early events without an observation are
// dropped.
func (w *observations) asked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asking--; w.asking == 0 {
		w.early = nil
	}
}

// end stops the observation on the server.
func (r route) end() {
	// In a goroutine, because the reader of the connection must not wait.
	r.link.client.spawn(func() {
		r.link.Tell(wire.MethodProcessUnobserve, wire.UnobserveParams{ObserveID: r.id})
	})
}

// detach stops observing for now. The caller has watchers.mu.
func (o *Observation) detach() {
	if o.route != nil {
		delete(o.watchers.routes, *o.route)
		if !o.over && !o.route.link.dead() {
			o.route.end()
		}
		o.route = nil
	}
	o.inbox.Wake.Send()
}

// Notification implements Extension.
func (w *observations) Notification(l *Link, method string, params []byte) error {
	var id int64
	var e Observed
	switch method {
	case wire.NoteObservedOutput:
		var n wire.ObservedOutput
		if err := wire.Decode(params, &n); err != nil {
			return err
		}
		id, e = n.ObserveID, Observed{Event{Kind: Output, Seq: n.Seq, Stream: n.Stream, Data: n.Chunk}, time.UnixMilli(n.TimeMs)}
	case wire.NoteObservedExited:
		var n wire.ObservedExited
		if err := wire.Decode(params, &n); err != nil {
			return err
		}
		id, e = n.ObserveID, Observed{Event{Kind: Exited, Seq: n.Seq, ExitCode: n.ExitCode, SandboxDenied: n.SandboxDenied,
			Denial: n.TetherDenial, Limit: n.TetherLimit, Failure: n.TetherFailure, Usage: n.TetherUsage, verdictKnown: true}, time.UnixMilli(n.TimeMs)}
	case wire.NoteObservedClosed:
		var n wire.ObservedClosed
		if err := wire.Decode(params, &n); err != nil {
			return err
		}
		id, e = n.ObserveID, Observed{Event{Kind: Closed, Seq: n.Seq, Survivors: n.TetherSurvivors}, time.UnixMilli(n.TimeMs)}
	case wire.NoteObservedEvicted:
		var n wire.ObservedEvicted
		if err := wire.Decode(params, &n); err != nil {
			return err
		}
		if n.FirstSeq > 0 {
			id, e = n.ObserveID, Observed{Event: Event{Kind: Gap, Seq: n.FirstSeq - 1}}
		}
	case wire.NoteObservedRemoved:
		var n wire.ObservedRemoved
		if err := wire.Decode(params, &n); err != nil {
			return err
		}
		w.remove(route{l, n.ObserveID})
		return nil
	default:
		return nil
	}
	w.deliver(route{l, id}, e)
	return nil
}

// remove takes the note that a process is gone.
func (w *observations) remove(r route) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.routes[r]
	if o == nil {
		o = w.earlyLocked(r)
	}
	if o != nil {
		o.removed = true
		o.inbox.Wake.Send()
	}
}

// earlyLocked returns the Observation in which events wait whose route is not known yet; nil if they belong to none.
func (w *observations) earlyLocked(r route) *Observation {
	if w.asking == 0 {
		return nil
	}
	o := w.early[r]
	if o == nil {
		if w.early == nil {
			w.early = make(map[route]*Observation)
		}
		o = &Observation{route: &r, inbox: inbox.New[Observed](maxObserved)}
		w.early[r] = o
	}
	return o
}

// deliver hands an event to its observation.
func (w *observations) deliver(r route, e Observed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.routes[r]; o != nil {
		if !o.take(e) {
			o.detach()
		}
		return
	}
	if o := w.earlyLocked(r); o != nil && o.route != nil && !o.put(e) {
		o.route = nil // full; the events from here on are asked for again
	}
}

// take adds an event after the last one. It returns false if there is no room. The caller
// has watchers.mu.
func (o *Observation) take(e Observed) bool {
	if o.over || e.Seq <= o.last {
		return true
	}
	if e.Kind != Gap && e.Seq > o.last+1 {
		if !o.put(Observed{Event: Event{Kind: Gap, First: o.last + 1, Seq: e.Seq - 1}}) {
			return false
		}
		o.last = e.Seq - 1
	}
	if e.Kind == Gap {
		e.First = o.last + 1
	}
	if !o.put(e) {
		return false
	}
	o.last = e.Seq
	if e.Kind == Closed {
		o.over = true
		o.detach()
	}
	return true
}

// put puts an event into the inbox if there is room. The caller has watchers.mu.
func (o *Observation) put(e Observed) bool {
	if o.bytes > 0 && o.bytes+len(e.Data) > maxObservedBytes || !o.inbox.Put(e) {
		return false
	}
	o.bytes += len(e.Data)
	return true
}

// Next returns the next event. After Closed it returns io.EOF. Any other error, except that
// of the context, is final: the process, its session or the session of this client is gone.
func (o *Observation) Next(ctx context.Context) (Observed, error) {
	for {
		e, found, end, attached := o.next()
		switch {
		case found:
			return e, nil
		case o.ctx.Err() != nil:
			return Observed{}, ErrObservationClosed
		case end != nil:
			return Observed{}, end
		case !attached:
			if err := o.attach(ctx); err != nil && o.ctx.Err() == nil {
				return Observed{}, err
			}
			continue
		}
		select {
		case <-o.inbox.Wake:
		case <-ctx.Done():
			return Observed{}, context.Cause(ctx)
		}
	}
}

// next takes an event from the inbox, and returns the state at that moment.
func (o *Observation) next() (e Observed, found bool, end error, attached bool) {
	o.watchers.mu.Lock()
	defer o.watchers.mu.Unlock()
	e, found = o.inbox.Take()
	o.bytes -= len(e.Data)
	switch {
	case o.over:
		end = io.EOF
	case o.removed:
		end = ErrRemoved
	}
	return e, found, end, o.route != nil
}

// Close ends the observation. A Next that waits returns ErrObservationClosed, as each
// later one does.
func (o *Observation) Close() {
	w := o.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	o.close()
	o.inbox.Clear()
	o.bytes = 0
	o.detach()
}

// Lost implements Extension: each observation attaches again on the next connection.
func (w *observations) Lost(error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.routes {
		o.detach()
	}
	w.early = nil
}
