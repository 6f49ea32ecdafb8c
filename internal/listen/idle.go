package listen

import (
	"sync"
	"time"
)

// An Idle ends [Listener.Serve] when the server was unused for a while: it had no connections, and busy reported no
// other work.
type Idle struct {
	after time.Duration
	busy  func() bool

	mu          sync.Mutex
	expire      func() // nil: no listener is watched
	connections int
	timer       *time.Timer
}

// NewIdle returns an Idle with a time; 0: it never ends a server. busy reports whether the server has work besides its
// connections. When such work has ended, [Idle.Released] must be called.
func NewIdle(after time.Duration, busy func() bool) *Idle {
	return &Idle{after: after, busy: busy}
}

// begin calls expire after the time without use, until end is called.
func (i *Idle) begin(expire func()) (end func()) {
	if i == nil || i.after <= 0 {
		return func() {}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.expire = expire
	i.timer = time.AfterFunc(i.after, i.look)
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.expire = nil
		i.timer.Stop()
	}
}

func (i *Idle) connected() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.connections++
}

func (i *Idle) disconnected() {
	if i == nil {
		return
	}
	i.mu.Lock()
	i.connections--
	i.mu.Unlock()
	i.Released()
}

// Released starts the time again: a connection, or the work that made the server busy,
// has ended.
func (i *Idle) Released() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.expire != nil {
		i.timer.Reset(i.after)
	}
}

func (i *Idle) look() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.expire != nil && i.connections == 0 && !i.busy() {
		i.expire()
	}
}
