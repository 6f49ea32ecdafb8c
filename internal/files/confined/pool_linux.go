package confined

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// Limits of a pool.
const (
	maxHelpers  = 8  // of one session: each is a sandbox with two processes
	maxBindings = 64 // intents whose meaning is remembered
	bindTries   = 10 // when files change while a sandbox is built
)

// errMoved means that a helper's sandbox was outdated before it was built.
var errMoved = errors.New("the files that the sandbox is about keep changing")

// A Pool serves the file requests of one session.
type Pool struct {
	config Config
	env    []string           // of helpers
	ctx    context.Context    // ends with Close
	cancel context.CancelFunc // begins it
	tasks  sync.WaitGroup     // one per helper
	places chan struct{}      // taken by each helper until its end

	mu       sync.Mutex
	closed   bool
	bindings map[string]*binding // by the text of the intent
	helpers  map[string]*worker  // by the key of the binding
	needy    int                 // helpers that wait for a place
}

// New makes a pool. Close it to end its helpers.
func New(cfg Config) *Pool {
	p := &Pool{
		config:   cfg.withDefaults(),
		env:      helperEnv(os.Environ()),
		places:   make(chan struct{}, maxHelpers),
		bindings: make(map[string]*binding),
		helpers:  make(map[string]*worker),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Files returns who serves a request that asks for this sandbox; nil: for none. The
// result is meant for this request: the next one asks again. No helper is started
// before it is needed. Where everything may be read a sandbox that cannot be built
// keeps only changes from happening.
//
// Errors are *[files.Error] or *[wire.Error], or the end of ctx.
func (p *Pool) Files(ctx context.Context, intent *wire.Sandbox) (files.Files, error) {
	if unconfined(intent) {
		return files.Direct{}, nil
	}
	b, err := p.bind(ctx, intent)
	switch {
	case err != nil && ctx.Err() == nil && readable(intent, err):
		return &policyFiles{pool: p, binding: &binding{fullRead: true}, refusal: refused(ctx, err)}, nil
	case err != nil:
		return nil, refused(ctx, err)
	case b.fullWrite:
		return files.Direct{}, nil
	}
	return &policyFiles{pool: p, binding: b}, nil
}

// Close ends all helpers, whatever they are doing, and returns when they have
// ended. A second time is harmless.
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

// use gives the helper for a binding, which must be given back with release. If the
// machine has changed since, the intent is bound anew.
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
		p.tasks.Go(h.run) // ends when it is retired, or by itself
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

// release gives a helper back.
func (p *Pool) release(h *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.users--; h.users > 0 {
		return
	}
	switch {
	case h.retired:
		h.hangUp()
	case p.needy > 0 && len(p.places) == cap(p.places):
		p.retireLocked(h)
	default:
		h.idleSince = time.Now()
		h.timer.Reset(p.config.IdleLimit)
	}
}

// retireLocked gives no more requests to a helper. It ends after the last one.
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
		h.hangUp()
	}
}

// expire retires a helper that nobody has used for long.
func (p *Pool) expire(h *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.users == 0 && time.Since(h.idleSince) >= p.config.IdleLimit {
		p.retireLocked(h)
	}
}

// placeRetry is after what time a place is looked for again: what was given up for
// one helper may have gone to another.
const placeRetry = 100 * time.Millisecond

// takePlace waits until there may be one more helper. The one that has been idle
// for the longest time goes.
func (p *Pool) takePlace() error {
	p.mu.Lock()
	p.needy++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.needy--
		p.mu.Unlock()
	}()
	for {
		select {
		case p.places <- struct{}{}:
			return nil
		default:
		}
		p.retireOldest()
		timer := time.NewTimer(placeRetry)
		select {
		case p.places <- struct{}{}:
			timer.Stop()
			return nil
		case <-p.ctx.Done():
			timer.Stop()
			return failure(ErrClosed.Error())
		case <-timer.C:
		}
	}
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
