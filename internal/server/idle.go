package server

import (
	"sync"
	"time"
)

// An idleWatch ends a server that nobody has used for a while: that has neither
// connections nor sessions. Its zero value never does.
type idleWatch struct {
	mu          sync.Mutex
	after       time.Duration
	sessions    func() int
	expire      func() // nil: nothing is watched
	connections int
	timer       *time.Timer
}

// begin watches until the returned function is called.
func (w *idleWatch) begin(after time.Duration, sessions func() int, expire func()) (end func()) {
	if after <= 0 {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after, w.sessions, w.expire = after, sessions, expire
	w.timer = time.AfterFunc(after, w.look)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.expire = nil
		w.timer.Stop()
	}
}

func (w *idleWatch) connected() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connections++
}

func (w *idleWatch) disconnected() {
	w.mu.Lock()
	w.connections--
	w.mu.Unlock()
	w.released()
}

// released is called when a connection or a session is gone. If it was the last,
// the time begins.
func (w *idleWatch) released() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expire != nil {
		w.timer.Reset(w.after)
	}
}

func (w *idleWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expire != nil && w.connections == 0 && w.sessions() == 0 {
		w.expire()
	}
}
