package confined

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/files/confined/helper"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/slots"
)

// helperArgv runs the program of the last stage of the sandbox, which may have
// another name inside.
var helperArgv = reexec.Argv("/proc/self/exe", reexec.Files)

// A worker is a running helper, from the pool's side. Its run method owns it.
type worker struct {
	pool    *Pool
	binding *binding

	ready    chan struct{} // closed when the helper serves, or has failed to start
	startErr error         // why it failed; set before ready is closed
	process  *proc.Process
	conn     *net.UnixConn
	slots    slots.Slots // one per request in progress
	rules    []byte      // encoded, until they are sent

	// Guarded by the pool's mutex.
	users        int
	idleSince    time.Time
	timer        *time.Timer // fires when it was idle for too long
	retired      bool        // gets no more requests
	disconnected bool

	mu      sync.Mutex
	lastID  uint64
	pending map[uint64]*pending
	dead    error // why no more answers come
}

// A pending request waits for its answer.
type pending struct {
	answer    chan reply // has room for it
	abandoned bool       // the caller has given up
}

// A reply is an answer with its file.
type reply struct {
	body []byte
	file *os.File // nil: none
	err  error
}

func newWorker(p *Pool, b *binding) *worker {
	h := &worker{
		pool: p, binding: b,
		ready: make(chan struct{}), slots: slots.New(atOnce),
		pending: make(map[uint64]*pending),
	}
	h.timer = time.AfterFunc(time.Hour, func() { p.expire(h) })
	h.timer.Stop()
	return h
}

// run starts the helper and receives its answers until it ends.
func (h *worker) run() {
	stderr := &proc.Capture{Limit: maxStderr}
	if err := h.start(stderr); err != nil {
		h.startErr = err
		h.withdraw()
		close(h.ready)
		return
	}
	stop := context.AfterFunc(h.pool.ctx, func() { h.conn.Close() })
	h.pool.mu.Lock()
	close(h.ready)
	if h.disconnected {
		h.conn.Close()
	}
	h.pool.mu.Unlock()
	err := h.receiveAll()
	h.withdraw()
	h.conn.Close()
	stop()
	if !h.expected() {
		h.await(exitWait)
		h.process.Kill()
		if text := reason(stderr); text != "" {
			err = errors.New(text)
		}
		h.pool.config.Log.Warn("a helper for file requests has ended", "err", err)
	}
	h.process.Kill() // no request needs it any more
	h.fail(err)
	h.pool.slots.Free()
}

// exitWait is how long a helper that ends by itself may take to print why.
const exitWait = time.Second

func (h *worker) await(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-h.process.Done():
	case <-timer.C:
	}
}

// expected reports whether the pool has ended the helper.
func (h *worker) expected() bool {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	return h.disconnected || h.pool.ctx.Err() != nil
}

// withdraw removes the helper from the pool, so that the next request starts
// another one.
func (h *worker) withdraw() {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	h.timer.Stop()
	h.retired = true
	if h.pool.helpers[h.binding.key] == h {
		delete(h.pool.helpers, h.binding.key)
	}
}

// disconnect ends the helper, which is idle. The pool's mutex is held.
func (h *worker) disconnect() {
	h.disconnected = true
	select {
	case <-h.ready:
		if h.conn != nil {
			h.conn.Close()
		}
	default: // run does it as soon as the helper is ready
	}
}

// start starts the helper and waits until it serves requests. It takes a slot,
// which it gives back if it fails.
func (h *worker) start(stderr *proc.Capture) (err error) {
	if err := h.pool.takeSlot(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			h.pool.slots.Free()
		}
	}()
	conn, theirs, err := socket()
	if err != nil {
		return failure(err.Error())
	}
	defer theirs.Close()
	if err := h.launch(theirs, stderr); err != nil {
		conn.Close()
		return err
	}
	h.conn = conn
	if err := h.sendRules(); err != nil {
		conn.Close()
		h.process.Kill()
		if h.moved() {
			return errMoved
		}
		if text := reason(stderr); text != "" {
			err = errors.New(text)
		}
		return failure(err.Error())
	}
	return nil
}

// moved reports whether files that the sandbox is about have changed while it was
// built. That may be the reason why it could not be built.
func (h *worker) moved() bool {
	same, err := h.pool.unchanged(h.pool.ctx, h.binding)
	return err == nil && !same
}

// launch starts the helper in its sandbox.
func (h *worker) launch(stdin *os.File, stderr *proc.Capture) error {
	request := h.pool.request(h.binding.intent)
	request.Spec.Stdin = stdin
	prepared, err := h.pool.config.Confiner.Prepare(h.pool.ctx, request)
	if err != nil && h.moved() {
		return errMoved
	}
	if err != nil {
		return refused(h.pool.ctx, err)
	}
	h.rules = helper.AppendRules(nil, prepared.Policy.Rulebook(prepared.Plan))
	// If nothing had changed before and after, nothing has changed while the
	// sandbox was bound.
	same, err := h.pool.unchanged(h.pool.ctx, h.binding)
	if err != nil || !same || prepared.Plan.Effects() != h.binding.plan {
		prepared.Abandon()
		return errMoved
	}
	h.process, err = prepared.Start(h.pool.ctx, h.pool.config.Procs, stderr)
	if err != nil && h.moved() {
		return errMoved
	}
	if err != nil {
		return refused(h.pool.ctx, err)
	}
	return nil
}

// rulesTime is how long a helper may take to accept the rules.
const rulesTime = 30 * time.Second

// sendRules sends the rules, which the helper confirms.
func (h *worker) sendRules() error {
	h.conn.SetReadDeadline(time.Now().Add(rulesTime))
	rules := h.rules
	h.rules = nil // they can be large
	if err := h.send(&helper.Request{Op: helper.OpRules, Body: rules}); err != nil {
		return err
	}
	answer, file, err := h.receive(make([]byte, helper.MaxMessage))
	if err != nil {
		return err
	}
	file.Close()
	if answer.Err != nil || answer.ID != 0 {
		return helper.ErrMessage
	}
	return h.conn.SetReadDeadline(time.Time{})
}

// call sends a request and waits for the answer. It ends the caller's use of
// the helper when the answer comes, also if the caller has given up.
func (h *worker) call(ctx context.Context, r *helper.Request) ([]byte, *os.File, error) {
	if err := h.slots.Take(ctx); err != nil {
		h.pool.release(h)
		return nil, nil, err
	}
	p, err := h.register(r)
	if err != nil {
		h.slots.Free()
		h.pool.release(h)
		return nil, nil, err
	}
	if err := h.send(r); err != nil {
		// After any error no answer will come.
		h.deliver(r.ID, reply{err: failure(err.Error())})
	}
	select {
	case a := <-p.answer:
		return a.body, a.file, a.err
	case <-ctx.Done():
	}
	if h.abandon(r.ID, p) {
		h.send(&helper.Request{ID: r.ID, Op: helper.OpCancel}) // if it cannot be sent, the helper has ended
		return nil, nil, context.Cause(ctx)
	}
	a := <-p.answer // it came at this moment
	return a.body, a.file, a.err
}

func (h *worker) register(r *helper.Request) (*pending, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead != nil {
		return nil, h.dead
	}
	h.lastID++
	r.ID = h.lastID
	p := &pending{answer: make(chan reply, 1)}
	h.pending[r.ID] = p
	return p, nil
}

// abandon marks a request as given up. It returns false if the answer has
// come already.
func (h *worker) abandon(id uint64, p *pending) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending[id] != p {
		return false
	}
	p.abandoned = true
	return true
}

// deliver passes an answer to its caller, after it has ended the use of the helper.
func (h *worker) deliver(id uint64, a reply) {
	h.mu.Lock()
	p := h.pending[id]
	delete(h.pending, id) // from here on no other goroutine has p
	h.mu.Unlock()
	if p == nil {
		a.file.Close()
		return
	}
	if p.abandoned {
		a.file.Close()
	}
	h.slots.Free()
	h.pool.release(h)
	if !p.abandoned {
		p.answer <- a
	}
}

// fail delivers an error to all pending requests.
func (h *worker) fail(err error) {
	h.mu.Lock()
	h.dead = failure(err.Error())
	ids := make([]uint64, 0, len(h.pending))
	for id := range h.pending {
		ids = append(ids, id)
	}
	h.mu.Unlock()
	for _, id := range ids {
		h.deliver(id, reply{err: h.dead})
	}
}

// errEnded is the error if a helper has ended without a message.
var errEnded = errors.New("it has ended")

// receiveAll receives answers until an error, which it returns.
func (h *worker) receiveAll() error {
	buffer := make([]byte, helper.MaxMessage)
	for {
		answer, file, err := h.receive(buffer)
		if err != nil {
			return err
		}
		h.take(answer, file)
	}
}

func (h *worker) take(answer *helper.Answer, file *os.File) {
	h.mu.Lock()
	p := h.pending[answer.ID]
	h.mu.Unlock()
	if p == nil {
		file.Close()
		return
	}
	a := reply{err: answer.Err}
	switch {
	case answer.Err != nil:
		file.Close()
	case answer.Large:
		a.body, a.err = helper.ReadPassed(file, helper.MaxAnswer)
		file.Close()
	default:
		a.body, a.file = append([]byte(nil), answer.Body...), file
	}
	h.deliver(answer.ID, a)
}

// maxStderr bounds the kept output of a helper, which prints only if it fails. The beginning of a crash report is the
// most useful part.
const maxStderr = 4 << 10

// reason returns why a helper has ended by itself; empty if it ended without a
// failure.
func reason(stderr *proc.Capture) string {
	output, code := stderr.Result()
	if code == 0 && len(output) == 0 {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("it ended with status %d: %s", code, output))
}
