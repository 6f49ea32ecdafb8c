package confined

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

// Limits of a pool.
const (
	maxHelpers  = 8  // per session: each is a sandbox with two processes
	maxBindings = 64 // bindings that are remembered
	bindTries   = 10 // if files change while a sandbox is built
)

// errMoved means that a helper's sandbox was outdated before it was ready.
var errMoved = errors.New("the files that the sandbox is about keep changing")

// A Pool serves the file requests of one session.
type Pool struct {
	config Config
	env    []string           // of helpers
	ctx    context.Context    // ends with Close
	cancel context.CancelFunc // ends ctx
	tasks  sync.WaitGroup     // one per helper
	slots  slots.Slots        // one per helper that runs

	mu       sync.Mutex
	closed   bool
	bindings map[string]*binding // by the text of the intent
	helpers  map[string]*worker  // by the key of the binding
	waiting  int                 // helpers that wait for a slot
}

// New makes a pool. Close it to end its helpers.
func New(cfg Config) *Pool {
	p := &Pool{
		config:   cfg.withDefaults(),
		env:      helperEnv(os.Environ()),
		slots:    slots.New(maxHelpers),
		bindings: make(map[string]*binding),
		helpers:  make(map[string]*worker),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Files returns the Files for a request with this sandbox; nil means no sandbox.
// The result is for one request: the next request calls Files again. A helper is
// started only when it is needed. If everything may be read and the sandbox cannot
// be built, only changes are refused.
//
// Errors are *[files.Error] or *[wire.Error], or the end of ctx.
func (p *Pool) Files(ctx context.Context, intent *wire.Sandbox) (files.Files, error) {
	if unconfined(intent) {
		return files.Direct{}, nil
	}
	b, err := p.bind(ctx, intent)
	switch {
	case err != nil && ctx.Err() == nil && readsDespite(intent, err):
		return &policyFiles{pool: p, binding: &binding{fullRead: true}, refusal: refused(ctx, err)}, nil
	case err != nil:
		return nil, refused(ctx, err)
	case b.fullWrite:
		return files.Direct{}, nil
	}
	return &policyFiles{pool: p, binding: b}, nil
}

// Close ends all helpers, also busy ones, and returns when they have ended. A
// second call does nothing.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	all := make([]*worker, 0, len(p.helpers))
	for _, h := range p.helpers {
		all = append(all, h)
	}
	for _, h := range all {
		p.retireLocked(h)
	}
	p.mu.Unlock()
	p.cancel()
	p.tasks.Wait()
}

// use returns the helper for a binding; the caller must release it. If the machine
// has changed since, the intent is bound anew.
func (p *Pool) use(ctx context.Context, b *binding) (*worker, error) {
	var err error
	for range bindTries {
		if b, err = p.refresh(ctx, b); err != nil {
			return nil, refused(ctx, err)
		}
		var h *worker
		if h, err = p.useOnce(ctx, b); !errors.Is(err, errMoved) {
			return h, err
		}
		p.forget(b)
	}
	return nil, unenforceable(err.Error())
}

func (p *Pool) useOnce(ctx context.Context, b *binding) (*worker, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, failure(ErrClosed.Error())
	}
	h := p.helpers[b.key]
	if h == nil {
		h = newWorker(p, b)
		p.helpers[b.key] = h
		p.tasks.Go(h.run) // ends when the helper is retired, or dies
	}
	h.users++
	h.timer.Stop()
	p.mu.Unlock()
	select {
	case <-h.ready:
	case <-ctx.Done():
		p.release(h)
		return nil, context.Cause(ctx)
	}
	if h.startErr != nil {
		p.release(h)
		return nil, h.startErr
	}
	return h, nil
}

// release ends one use of a helper.
func (p *Pool) release(h *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.users--; h.users > 0 {
		return
	}
	switch {
	case h.retired:
		h.disconnect()
	case p.waiting > 0 && len(p.slots) == cap(p.slots):
		p.retireLocked(h)
	default:
		h.idleSince = time.Now()
		h.timer.Reset(p.config.IdleLimit)
	}
}

// retireLocked gives no more requests to a helper. The helper ends after its
// last request.
func (p *Pool) retireLocked(h *worker) {
	if h.retired {
		return
	}
	h.retired = true
	h.timer.Stop()
	if p.helpers[h.binding.key] == h {
		delete(p.helpers, h.binding.key)
	}
	if h.users == 0 {
		h.disconnect()
	}
}

// expire retires a helper that was unused for long.
func (p *Pool) expire(h *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.users == 0 && time.Since(h.idleSince) >= p.config.IdleLimit {
		p.retireLocked(h)
	}
}

// slotRetry is the time after which takeSlot tries again: the slot that was freed
// may have gone to another helper.
const slotRetry = 100 * time.Millisecond

// takeSlot waits until one more helper may run. It retires the helper that has
// been idle for the longest time.
func (p *Pool) takeSlot() error {
	p.mu.Lock()
	p.waiting++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
	}()
	for !p.slots.TryTake() {
		p.retireOldest()
		ctx, cancel := context.WithTimeout(p.ctx, slotRetry)
		err := p.slots.Take(ctx)
		cancel()
		switch {
		case err == nil:
			return nil
		case p.ctx.Err() != nil:
			return failure(ErrClosed.Error())
		}
	}
	return nil
}

func (p *Pool) retireOldest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var oldest *worker
	for _, h := range p.helpers {
		if h.users == 0 && (oldest == nil || h.idleSince.Before(oldest.idleSince)) {
			oldest = h
		}
	}
	if oldest != nil {
		p.retireLocked(oldest)
	}
}
