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
)

// helperArgv runs the program that the last stage of the sandbox is, whatever its
// name is inside.
var helperArgv = reexec.Argv("/proc/self/exe", reexec.Files)

// A worker is a helper that runs, as the pool sees it. Its run owns it.
type worker struct {
	pool    *Pool
	binding *binding

	ready    chan struct{} // closed once it serves, or will not
	startErr error         // why not; set before
	process  *proc.Process
	conn     *net.UnixConn
	slots    chan struct{} // taken by each request
	rules    []byte        // encoded, until they are sent

	// Guarded by the pool's mutex.
	users     int
	idleSince time.Time
	timer     *time.Timer // fires when it was idle for too long
	retired   bool        // it gets no more requests
	hungUp    bool

	mu      sync.Mutex
	lastID  uint64
	pending map[uint64]*pending
	dead    error // why no answers come any more
}

// A pending request waits for its answer.
type pending struct {
	answer    chan reply // has room for it
	abandoned bool       // nobody takes it
}

// A reply is an answer with what came along.
type reply struct {
	body []byte
	file *os.File // nil: none
	err  error
}

func newWorker(p *Pool, b *binding) *worker {
	h := &worker{
		pool: p, binding: b,
		ready: make(chan struct{}), slots: make(chan struct{}, atOnce),
		pending: make(map[uint64]*pending),
	}
	h.timer = time.AfterFunc(time.Hour, func() { p.expire(h) })
	h.timer.Stop()
	return h
}

// run starts the helper and takes its answers until it ends.
func (h *worker) run() {
	said := &proc.Capture{Limit: maxStderr}
	if err := h.start(said); err != nil {
		h.startErr = err
		h.withdraw()
		close(h.ready)
		return
	}
	stop := context.AfterFunc(h.pool.ctx, func() { h.conn.Close() })
	h.pool.mu.Lock()
	close(h.ready)
	if h.hungUp {
		h.conn.Close()
	}
	h.pool.mu.Unlock()
	err := h.receiveAll()
	h.withdraw()
	h.conn.Close()
	stop()
	if !h.expected() {
		h.await(lastWords)
		h.process.Kill()
		if text := reason(said); text != "" {
			err = errors.New(text)
		}
		h.pool.config.Log.Warn("a helper for file requests has ended", "err", err)
	}
	h.process.Kill() // it has nothing to do that anybody waits for
	h.fail(err)
	<-h.pool.places
}

// lastWords is how long a helper that ends on its own may take to say why.
const lastWords = time.Second

func (h *worker) await(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-h.process.Done():
	case <-timer.C:
	}
}

// expected reports whether the helper ends because we want it to.
func (h *worker) expected() bool {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	return h.hungUp || h.pool.ctx.Err() != nil
}

// withdraw has the next request start another helper.
func (h *worker) withdraw() {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	h.timer.Stop()
	h.retired = true
	if h.pool.helpers[h.binding.key] == h {
		delete(h.pool.helpers, h.binding.key)
	}
}

// hangUp ends the helper, which is idle. The pool's mutex is held.
func (h *worker) hangUp() {
	h.hungUp = true
	select {
	case <-h.ready:
		if h.conn != nil {
			h.conn.Close()
		}
	default: // it does so itself as soon as it is ready
	}
}

// start gets the helper to serve requests. It takes a place, which is given back if
// that fails.
func (h *worker) start(said *proc.Capture) (err error) {
	if err := h.pool.takePlace(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			<-h.pool.places
		}
	}()
	conn, theirs, err := socket()
	if err != nil {
		return failure(err.Error())
	}
	defer theirs.Close()
	if err := h.launch(theirs, said); err != nil {
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
		if text := reason(said); text != "" {
			err = errors.New(text)
		}
		return failure(err.Error())
	}
	return nil
}

// moved reports whether files that the sandbox is about have changed while it was
// built, which may be why it could not be.
func (h *worker) moved() bool {
	same, err := h.pool.unchanged(h.pool.ctx, h.binding)
	return err == nil && !same
}

// launch executes the helper in its sandbox.
func (h *worker) launch(stdin *os.File, said *proc.Capture) error {
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
	// Nothing has changed while the sandbox was bound if nothing has before and
	// after.
	same, err := h.pool.unchanged(h.pool.ctx, h.binding)
	if err != nil || !same || prepared.Plan.Effects() != h.binding.plan {
		prepared.Abandon()
		return errMoved
	}
	h.process, err = prepared.Start(h.pool.ctx, h.pool.config.Procs, said)
	if err != nil && h.moved() {
		return errMoved
	}
	if err != nil {
		return refused(h.pool.ctx, err)
	}
	return nil
}

// rulesTime is how long a helper may take to take the rules over.
const rulesTime = 30 * time.Second

// sendRules sends the rules, which the helper confirms.
func (h *worker) sendRules() error {
	h.conn.SetReadDeadline(time.Now().Add(rulesTime))
	rules := h.rules
	h.rules = nil // they can be many
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

// call sends a request and waits for the answer. The caller has one use of the
// helper, which ends with the answer, also if nobody waits for it any more.
func (h *worker) call(ctx context.Context, r *helper.Request) ([]byte, *os.File, error) {
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		h.pool.release(h)
		return nil, nil, context.Cause(ctx)
	}
	p, err := h.register(r)
	if err != nil {
		<-h.slots
		h.pool.release(h)
		return nil, nil, err
	}
	if err := h.send(r); err != nil {
		// Whatever is wrong, no answer will come.
		h.settle(r.ID, reply{err: failure(err.Error())})
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
	a := <-p.answer // it came in this moment
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

// abandon reports whether the answer has not come yet.
func (h *worker) abandon(id uint64, p *pending) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending[id] != p {
		return false
	}
	p.abandoned = true
	return true
}

// settle hands an answer to who waits for it, whose use of the helper has ended by then.
func (h *worker) settle(id uint64, a reply) {
	h.mu.Lock()
	p := h.pending[id]
	delete(h.pending, id) // from here on p is ours alone
	h.mu.Unlock()
	if p == nil {
		a.file.Close()
		return
	}
	if p.abandoned {
		a.file.Close()
	}
	<-h.slots
	h.pool.release(h)
	if !p.abandoned {
		p.answer <- a
	}
}

// fail answers all that will have no answer.
func (h *worker) fail(err error) {
	h.mu.Lock()
	h.dead = failure(err.Error())
	ids := make([]uint64, 0, len(h.pending))
	for id := range h.pending {
		ids = append(ids, id)
	}
	h.mu.Unlock()
	for _, id := range ids {
		h.settle(id, reply{err: h.dead})
	}
}

// errEnded is why a helper that said nothing has no answers any more.
var errEnded = errors.New("it has ended")

// receiveAll takes answers until there are none any more, and says why.
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
	h.settle(answer.ID, a)
}

// maxStderr bounds what is kept of what a helper prints, which it does only if it fails: the beginning of a crash tells most.
const maxStderr = 4 << 10

// reason says why a helper has ended by itself; empty: it has ended without a failure.
func reason(said *proc.Capture) string {
	output, code := said.Result()
	if code == 0 && len(output) == 0 {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("it ended with status %d: %s", code, output))
}
