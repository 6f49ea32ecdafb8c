package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// maxReasons is how many different reasons for failed attempts are logged while the hub is away. Some texts contain port numbers
// and differ each time.
const maxReasons = 8

// A watcher follows one connection. The library calls it from goroutines of its own.
type watcher struct {
	config Config
	conn   atomic.Pointer[nats.Conn] // nil: not known yet
	result chan error                // has the result of the first attempt

	mu      sync.Mutex
	decided bool                // result has been sent
	reasons map[string]struct{} // those that were logged since the hub was there
}

func newWatcher(c Config) *watcher {
	return &watcher{config: c, result: make(chan error, 1), reasons: map[string]struct{}{}}
}

// decide reports the result of the first attempt. It returns false if that is known already.
func (w *watcher) decide(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.decided {
		return false
	}
	w.decided = true
	w.result <- err
	return true
}

// connected is called when a connection was made.
func (w *watcher) connected() {
	w.mu.Lock()
	w.reasons = map[string]struct{}{}
	w.mu.Unlock()
	if !w.decide(nil) {
		w.config.Log.Info("connected to the hub")
	}
}

// failed logs why an attempt has failed, each reason once.
func (w *watcher) failed(err error) {
	if err == nil || w.decide(err) && isRefusal(err) {
		return // Connect returns it
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return // of the first attempt
	}
	text := strings.ToLower(err.Error()) // the library has two spellings of the same refusal
	w.mu.Lock()
	_, known := w.reasons[text]
	known = known || len(w.reasons) >= maxReasons
	if !known {
		w.reasons[text] = struct{}{}
	}
	w.mu.Unlock()
	switch {
	case known:
	case isRefusal(err):
		w.config.Log.Error("the hub refuses this client, which keeps trying", "err", err)
	default:
		w.config.Log.Warn("the hub is not reachable yet", "err", err)
	}
}

// checkRefused logs a refusal before the first connection, for which the library has no call.
func (w *watcher) checkRefused() {
	if conn := w.conn.Load(); conn != nil {
		w.failed(conn.LastError())
	}
}

// disconnected is called when a connection has ended.
func (w *watcher) disconnected(c *nats.Conn, err error) {
	if !c.IsClosed() {
		w.config.Log.Warn("disconnected from the hub", "err", err)
	}
}

// asyncError is called with errors that belong to no call. Their texts name subjects, but have nothing of messages.
func (w *watcher) asyncError(c *nats.Conn, sub *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		subject := ""
		if sub != nil {
			subject = sub.Subject
		}
		w.config.Log.Warn("messages were dropped because they were not handled fast enough", "subject", subject)
	case errors.Is(err, nats.ErrPermissionViolation):
		w.config.Log.Error("the hub does not allow this client to do that", "err", err)
	case c.IsReconnecting() || isRefusal(err):
		w.failed(err)
	default:
		w.config.Log.Warn("error of the bus", "err", err)
	}
}
