package ports

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

// Limits of forwarded connections.
const (
	MaxOpen     = 1024 // of a session
	maxOfServer = 4096 // of all sessions of a server
	maxLarge    = 128  // connections of a server that have the full window: 256 MiB for both directions

	MaxListeners   = 32  // of a session
	maxOfListeners = 256 // of all sessions of a server
)

// A Room limits the forwarded connections of a server.
type Room struct {
	policy, reverse        Policy
	open, large, listeners slots.Slots
	dial                   func(ctx context.Context, addresses []string) (net.Conn, error) // another one in tests
}

// NewRoom returns the room of a server. An empty policy is the default.
func NewRoom(policy, reverse Policy) *Room {
	return &Room{
		policy: cmp.Or(policy, Policies[0]), reverse: cmp.Or(reverse, ReversePolicies[0]),
		open: slots.New(maxOfServer), large: slots.New(maxLarge), listeners: slots.New(maxOfListeners), dial: dial,
	}
}

// Allowed reports whether the server forwards at all.
func (r *Room) Allowed() bool { return r.policy != Nowhere }

// Listens reports whether the server listens for clients.
func (r *Room) Listens() bool { return r.reverse != Nowhere }

// Listeners is how many listeners the server has.
func (r *Room) Listeners() int { return len(r.listeners) }

// Open is how many forwarded connections the server has.
func (r *Room) Open() int { return len(r.open) }

// A Table has the forwarded connections of a session.
type Table struct {
	room  *Room
	ctx   context.Context // ends with the session
	tasks sync.WaitGroup  // of all entries

	mu        sync.Mutex
	byID      map[string]*entry
	listeners map[string]*listener
	closed    bool
}

// NewTable returns the table of a session; ctx ends with the session.
func NewTable(ctx context.Context, room *Room) *Table {
	return &Table{room: room, ctx: ctx, byID: map[string]*entry{}, listeners: map[string]*listener{}}
}

// An end is what the server's socket of a forwarded connection leads to: a target, or one of those that connect to a listener.
type end struct {
	host     string
	port     uint16
	process  string // whose network the port is in; empty: that of the machine
	listener string
}

// An entry is a forwarded connection, from its first request until the client closes it.
type entry struct {
	to      end
	counted bool // it has a slot of the server
	large   bool // and one for the full window
	cancel  context.CancelFunc
	dialed  chan struct{} // closed when pipe or err is set
	pipe    *Pipe
	err     error
}

// An Opening is a forwarded connection that is being opened or continued.
type Opening struct {
	table *Table
	id    string
	entry *entry
}

// Open begins to connect to the target, unless the connection exists. It does not wait.
func (t *Table) Open(p *wire.PortOpenParams) (*Opening, error) {
	to := end{port: p.Port}
	if p.Host != nil {
		to.host = *p.Host
	}
	addresses, err := t.room.policy.addresses(to.host, p.Port)
	if err != nil {
		return nil, err
	}
	return t.add(p.ConnectionID, to, p.Received != nil, func(ctx context.Context) (net.Conn, error) { return t.room.dial(ctx, addresses) })
}

// OpenInside is Open for the port of a process with a network of its own. process names it in the session, and reach connects.
func (t *Table) OpenInside(p *wire.PortOpenParams, process string, reach func(context.Context) (net.Conn, error)) (*Opening, error) {
	switch {
	case !t.room.Allowed():
		return nil, ErrNowhere
	case p.Port == 0 || p.Host != nil:
		return nil, fmt.Errorf("%w: the port of a process has no host, and is not 0", ErrInvalid)
	}
	return t.add(p.ConnectionID, end{port: p.Port, process: process}, p.Received != nil, reach)
}

// add returns the entry with an id, or a new one, unless the client continues a connection. A new one begins to get its socket from reach, or from its listener.
func (t *Table) add(id string, to end, continues bool, reach func(context.Context) (net.Conn, error)) (*Opening, error) {
	if err := checkID("connectionId", id); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[id]; e != nil {
		if e.to != to {
			return nil, ErrDiffers
		}
		return &Opening{t, id, e}, nil
	}
	e := &entry{to: to, dialed: make(chan struct{})}
	l := t.listeners[to.listener]
	switch {
	case continues:
		return nil, ErrUnknown
	case t.closed:
		return nil, ErrClosed
	case l == nil && to.listener != "":
		return nil, ErrNoListener
	case len(t.byID) >= MaxOpen:
		return nil, fmt.Errorf("%w: %d forwarded connections of a session", ErrLimit, MaxOpen)
	case l != nil: // its connections have slots
		reach = l.next
	case !t.room.open.TryTake():
		return nil, fmt.Errorf("%w: %d forwarded connections of the server", ErrLimit, maxOfServer)
	default:
		e.counted = true
	}
	ctx, cancel := context.WithCancel(t.ctx)
	e.cancel = cancel
	t.byID[id] = e
	t.tasks.Go(func() { t.serve(ctx, id, e, reach) }) // ends with the entry or the session
	return &Opening{t, id, e}, nil
}

func checkID(name, id string) error {
	if len(id) == 0 || len(id) > wire.MaxPortID {
		return fmt.Errorf("%w: %s must have 1 to %d bytes", ErrInvalid, name, wire.MaxPortID)
	}
	return nil
}

// serve gets the socket, and passes bytes on until both directions have ended.
func (t *Table) serve(ctx context.Context, id string, e *entry, reach func(context.Context) (net.Conn, error)) {
	defer t.leave(e)
	conn, err := reach(ctx)
	e.counted = e.counted || err == nil
	if !t.dialed(id, e, conn, err) {
		return
	}
	defer context.AfterFunc(ctx, func() { e.pipe.Stop(true) })()
	e.pipe.Run()
	<-ctx.Done() // the client may not have everything yet
}

// dialed notes the outcome of reach. It reports whether there is something to pass on.
func (t *Table) dialed(id string, e *entry, conn net.Conn, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(e.dialed)
	switch {
	case err == nil && t.byID[id] == e:
		window := uint64(MinWindow)
		if e.large = t.room.large.TryTake(); e.large {
			window = Window
		}
		e.pipe = newPipe(id, atServer, conn, window)
		return true
	case err == nil:
		conn.Close()
		err = ErrClosed
	case t.byID[id] == e:
		delete(t.byID, id)
	default:
		err = ErrClosed
	}
	e.err = err
	return false
}

// leave gives back the room of an entry.
func (t *Table) leave(e *entry) {
	e.cancel()
	if e.large {
		t.room.large.Free()
	}
	if e.counted {
		t.room.open.Free()
	}
}

// Wait waits until the target was reached, or cannot be reached.
func (o *Opening) Wait(ctx context.Context) (*Pipe, error) {
	select {
	case <-o.entry.dialed:
		return o.entry.pipe, o.entry.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Find returns a pipe; nil: there is none, or it is not connected.
func (t *Table) Find(id string) *Pipe { return t.FindBytes([]byte(id)) }

// FindBytes is Find for an id in a message.
func (t *Table) FindBytes(id []byte) *Pipe {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[string(id)]; e != nil {
		return e.pipe
	}
	return nil
}

// End ends a forwarded connection, if it exists. The target sees a reset if abort is set. It does not wait.
func (t *Table) End(id string, abort bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[id]; e != nil {
		if e.pipe != nil {
			e.pipe.Stop(abort)
		}
		e.cancel()
		delete(t.byID, id)
	}
}

// Close ends all forwarded connections.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	for id, e := range t.byID {
		delete(t.byID, id)
		e.cancel()
	}
	for id, l := range t.listeners {
		delete(t.listeners, id)
		l.end()
	}
	t.mu.Unlock()
	t.tasks.Wait()
}
