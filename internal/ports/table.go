package ports

import (
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
)

// A Room limits the forwarded connections of a server.
type Room struct {
	policy      Policy
	open, large slots.Slots
	dial        func(ctx context.Context, addresses []string) (net.Conn, error) // another one in tests
}

// NewRoom returns the room of a server. An empty policy is the default.
func NewRoom(policy Policy) *Room {
	if policy == "" {
		policy = Policies[0]
	}
	return &Room{policy: policy, open: slots.New(maxOfServer), large: slots.New(maxLarge), dial: dial}
}

// Allowed reports whether the server forwards at all.
func (r *Room) Allowed() bool { return r.policy != Nowhere }

// Open is how many forwarded connections the server has.
func (r *Room) Open() int { return len(r.open) }

// A Table has the forwarded connections of a session.
type Table struct {
	room  *Room
	ctx   context.Context // ends with the session
	tasks sync.WaitGroup  // of all entries

	mu     sync.Mutex
	byID   map[string]*entry
	closed bool
}

// NewTable returns the table of a session; ctx ends with the session.
func NewTable(ctx context.Context, room *Room) *Table {
	return &Table{room: room, ctx: ctx, byID: map[string]*entry{}}
}

// An entry is a forwarded connection, from its first request until the client closes it.
type entry struct {
	host   string
	port   uint16
	window uint64
	cancel context.CancelFunc
	dialed chan struct{} // closed when pipe or err is set
	pipe   *Pipe
	err    error
}

// An Opening is a forwarded connection that is being opened or continued.
type Opening struct {
	table *Table
	id    string
	entry *entry
}

// Open begins to connect to the target, unless the connection exists. It does not wait.
func (t *Table) Open(p *wire.PortOpenParams) (*Opening, error) {
	host := ""
	if p.Host != nil {
		host = *p.Host
	}
	if len(p.ConnectionID) == 0 || len(p.ConnectionID) > wire.MaxPortID {
		return nil, fmt.Errorf("%w: connectionId must have 1 to %d bytes", ErrInvalid, wire.MaxPortID)
	}
	addresses, err := t.room.policy.addresses(host, p.Port)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[p.ConnectionID]; e != nil {
		if e.host != host || e.port != p.Port {
			return nil, ErrDiffers
		}
		return &Opening{t, p.ConnectionID, e}, nil
	}
	switch {
	case p.Received != nil:
		return nil, ErrUnknown
	case t.closed:
		return nil, ErrClosed
	case len(t.byID) >= MaxOpen:
		return nil, fmt.Errorf("%w: %d forwarded connections of a session", ErrLimit, MaxOpen)
	case !t.room.open.TryTake():
		return nil, fmt.Errorf("%w: %d forwarded connections of the server", ErrLimit, maxOfServer)
	}
	e := &entry{host: host, port: p.Port, window: MinWindow, dialed: make(chan struct{})}
	if t.room.large.TryTake() {
		e.window = Window
	}
	ctx, cancel := context.WithCancel(t.ctx)
	e.cancel = cancel
	t.byID[p.ConnectionID] = e
	t.tasks.Go(func() { t.serve(ctx, p.ConnectionID, e, addresses) }) // ends with the entry or the session
	return &Opening{t, p.ConnectionID, e}, nil
}

// serve connects to the target, and passes bytes on until both directions have ended.
func (t *Table) serve(ctx context.Context, id string, e *entry, addresses []string) {
	defer t.leave(e)
	conn, err := t.room.dial(ctx, addresses)
	if !t.dialed(id, e, conn, err) {
		return
	}
	defer context.AfterFunc(ctx, func() { e.pipe.Stop(true) })()
	e.pipe.Run()
	<-ctx.Done() // the client may not have everything yet
}

// dialed notes the outcome of dial. It reports whether there is something to pass on.
func (t *Table) dialed(id string, e *entry, conn net.Conn, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(e.dialed)
	switch {
	case err == nil && t.byID[id] == e:
		e.pipe = newPipe(id, atServer, conn, e.window)
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
	if e.window == Window {
		t.room.large.Free()
	}
	t.room.open.Free()
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
	t.mu.Unlock()
	t.tasks.Wait()
}
