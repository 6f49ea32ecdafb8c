package client

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/wire"
)

// A Process is a command on the executor. It is safe for concurrent use. A program that
// drops its Process does not end the command.
type Process struct {
	client      *Client
	id          string
	sandboxType string // empty: not known
	limits      *wire.LimitsInForce
	started     atomic.Bool // its start was answered
	input       input
	hosts       processHosts

	mu      sync.Mutex // guards the fields below
	seq     sequence
	log     eventLog
	end     ending
	readers readers
	acks    acks
	missing missing
}

// An ending is how a process ended, as far as that is known.
type ending struct {
	exited  chan struct{} // closed with the exit, or the failure
	done    chan struct{} // closed when nothing follows
	exit    Event         // Kind is 0 until it is known
	failure error         // why the process was lost

	survivors []wire.Survivor // of the Closed event
}

// readers are the subscriptions of a process.
type readers struct {
	open       map[*Subscription]struct{}
	subscribed bool          // there was one
	discard    bool          // there will be none: output is acknowledged as it comes
	over       chan struct{} // closed when one has finished or was closed; nil: nothing waits for that
	room       chan struct{} // closed when there is room in the log; nil: nothing waits for that
}

// acks is what was acknowledged to the server.
type acks struct {
	seq   uint64 // the last event that was acknowledged
	bytes int    // bytes that were delivered since, or arrived without a subscription
}

func newProcess(c *Client, id string) *Process {
	p := &Process{client: c, id: id}
	p.input.process = p
	p.end.exited, p.end.done = make(chan struct{}), make(chan struct{})
	p.readers.open = make(map[*Subscription]struct{})
	p.log.kept = new(atomic.Int64)
	// A log may never be read to its end: its bytes stop counting when its process is
	// garbage-collected.
	total := c.processes.kept
	runtime.AddCleanup(p, func(own *atomic.Int64) { total.Add(-own.Load()) }, p.log.kept)
	return p
}

// ID names the process in its session.
func (p *Process) ID() string { return p.id }

// SandboxType is the kind of sandbox that the command runs in, as the server names
// it: "none", "linuxSeccomp", … It is empty if the server did not name one.
func (p *Process) SandboxType() string { return p.sandboxType }

// Limits are the limits of the process, and how the server enforces them; nil: there are none, or they are not known,
// because this client has not started the process.
func (p *Process) Limits() *wire.LimitsInForce { return p.limits }

// Exited is closed when the command has exited, or when the process was lost. Output may
// still follow.
func (p *Process) Exited() <-chan struct{} { return p.end.exited }

// Done is closed when the command has exited and all of its output has arrived, or when
// the process was lost. Readers may still have to read that output; [Process.Wait] waits
// for them.
func (p *Process) Done() <-chan struct{} { return p.end.done }

// An Exit is how a command ended.
type Exit struct {
	Code          int              // 128+n if a signal n ended it
	SandboxDenied bool             // the sandbox probably caused the failure
	Denial        *wire.DenialFact // the details of that, as far as they are known; may be nil
	Limit         string           // the limit because of which the server has ended the command, such as wire.LimitTimeMs; "": none
	Failure       string           // why Code is not the command's own, such as that its server was killed; "": it is
	Usage         *wire.Usage      // what the command has used; nil: the server does not say
}

// await waits for an event. If the event has happened, the end of the context does not
// count.
func await(ctx context.Context, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	default:
	}
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// discardOutput lets the server drop the output of a process that has had no subscription.
func (p *Process) discardOutput() {
	p.mu.Lock()
	if !p.readers.subscribed {
		p.readers.discard = true
	}
	ack := p.ackDue(true)
	p.mu.Unlock()
	p.sendAck(ack)
}

// Result returns how the command ended without waiting for the end of its output.
func (p *Process) Result(ctx context.Context) (Exit, error) {
	if err := await(ctx, p.end.exited); err != nil {
		return Exit{}, err
	}
	p.mu.Lock()
	exit, failure := p.end.exit, p.end.failure
	p.mu.Unlock()
	switch {
	case exit.Kind != 0:
	case failure != nil:
		return Exit{}, failure
	default:
		return Exit{}, protocolError("process %s was closed without an exit", p.id)
	}
	if !exit.verdictKnown { // an old server says it only in the answer to a read
		if r, err := p.Read(ctx, ReadOptions{AfterSeq: exit.Seq}); err == nil {
			exit.SandboxDenied = r.SandboxDenied
		}
	}
	result := Exit{Code: exit.ExitCode, SandboxDenied: exit.SandboxDenied, Denial: exit.Denial, Usage: exit.Usage}
	if exit.Limit != nil {
		result.Limit = *exit.Limit
	}
	if exit.Failure != nil {
		result.Failure = *exit.Failure
	}
	return result, nil
}

// Survivors are processes of the command that were killed and were still there when the command was done. They are known once
// [Process.Done] is closed.
func (p *Process) Survivors() []wire.Survivor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end.survivors
}

// Err is why the process was lost; nil if it was not.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end.failure
}

// take adds an event that has arrived.
func (p *Process) take(e Event) {
	if len(e.Data) > maxChunk {
		p.client.giveUp(p, protocolError("process event exceeds %d bytes", maxChunk))
		return
	}
	p.mu.Lock()
	p.backpressure(len(e.Data))
	if p.end.failure != nil {
		p.mu.Unlock()
		return
	}
	if len(p.readers.open) == 0 {
		p.acks.bytes += len(e.Data)
	}
	kept := p.seq.add(e, p.publish)
	p.finish(kept)
}

// finish is called after events were added: it unlocks p.mu, acknowledges, and notes missing
// events.
func (p *Process) finish(kept bool) {
	missing := p.noteMissing(!kept)
	closed := p.seq.closed
	ack := p.ackDue(false)
	p.mu.Unlock()
	if closed {
		p.client.processes.remove(p)
	}
	if missing {
		p.client.processes.setIncomplete(p, true)
	}
	p.sendAck(ack)
}

// publish makes an event visible. The caller has p.mu.
func (p *Process) publish(e Event) {
	switch e.Kind {
	case Exited:
		if p.end.exit.Kind == 0 { // if a server reports two exits, the first one counts
			p.end.exit = e
			close(p.end.exited)
		}
	case Closed:
		if p.end.exit.Kind == 0 { // the exit was lost in a gap
			close(p.end.exited)
		}
		p.end.survivors = e.Survivors
		close(p.end.done)
	}
	p.log.add(e)
	p.trimLog()
	for s := range p.readers.open {
		s.wake.Send()
	}
}

// needed is the first event that a subscription still has to deliver. The caller has
// p.mu.
func (p *Process) needed() uint64 {
	first := p.seq.last + 1
	for s := range p.readers.open {
		first = min(first, s.next)
	}
	return first
}

// fail marks a process as lost.
func (p *Process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end.failure != nil || p.seq.closed {
		return
	}
	p.end.failure = err
	if p.end.exit.Kind == 0 {
		close(p.end.exited)
	}
	close(p.end.done)
	for s := range p.readers.open {
		s.wake.Send()
	}
}

// ReadOptions select the output that [Process.Read] returns.
type ReadOptions struct {
	AfterSeq uint64        // events after this one
	MaxBytes uint64        // a limit of the answer; 0: the server's own limit
	Wait     time.Duration // how long to wait for the next event
}

// Read asks the server for output that it still has. It is for programs that keep their own
// cursor; [Process.Subscribe] is easier.
func (p *Process) Read(ctx context.Context, o ReadOptions) (*wire.ReadResult, error) {
	params := wire.ReadParams{ProcessID: p.id, AfterSeq: &o.AfterSeq}
	if o.MaxBytes > 0 {
		params.MaxBytes = &o.MaxBytes
	}
	wait := uint64(max(0, o.Wait.Milliseconds()))
	params.WaitMs = &wait
	r := new(wire.ReadResult)
	return r, p.client.Call(ctx, Idempotent, wire.MethodProcessRead, params, r)
}

// catchUp asks on a connection for the events after the last one.
func (p *Process) catchUp(ctx context.Context, l *Link) error {
	p.mu.Lock()
	after := p.seq.last
	p.mu.Unlock()
	var zero uint64
	var r wire.ReadResult
	err := l.callAs(ctx, patient, wire.MethodProcessRead, wire.ReadParams{ProcessID: p.id, AfterSeq: &after, WaitMs: &zero}, &r)
	if err != nil {
		return err
	}
	p.mu.Lock()
	if p.end.failure != nil {
		p.mu.Unlock()
		return nil
	}
	err = p.seq.catchUp(&r, p.publish)
	p.finish(true)
	return err
}

// Interrupt sends SIGINT to the command and its children, once. If the connection is
// lost at that moment and the server cannot recognize a repeated signal, the error is
// ErrAmbiguous.
func (p *Process) Interrupt(ctx context.Context) error {
	params := wire.SignalParams{ProcessID: p.id, Signal: wire.SignalInterrupt}
	return p.callOnce(ctx, wire.MethodProcessSignal, &params, &params.OnceID)
}

// Signal sends any signal by its name, as "SIGHUP". Servers without
// FeatureSignal have SIGINT only.
func (p *Process) Signal(ctx context.Context, name string) error {
	signal, err := wire.ParseSignal(name)
	if err != nil {
		return err
	}
	if !p.client.Has(FeatureSignal) {
		if signal == "SIGINT" {
			return p.Interrupt(ctx)
		}
		return unsupported("signal " + string(signal))
	}
	params := wire.SignalAnyParams{ProcessID: p.id, Signal: signal}
	return p.callOnce(ctx, wire.MethodProcessSignalAny, &params, &params.OnceID)
}

// callOnce sends a request that must not be carried out twice. id is its member that
// makes the server ignore a repetition.
func (p *Process) callOnce(ctx context.Context, method string, params any, id **string) error {
	if p.client.Has(FeatureOnce) {
		once := p.client.NewID()
		*id = &once
		return p.client.Call(ctx, Idempotent, method, params, nil)
	}
	return p.client.Call(ctx, AtMostOnce, method, params, nil)
}

// Terminate ends the command and all it has started: SIGTERM, and SIGKILL soon
// after. It reports whether the command was still running. If the process is done already,
// it sends no request.
func (p *Process) Terminate(ctx context.Context) (running bool, err error) {
	select {
	case <-p.end.done:
		if err := p.Err(); err != nil {
			return false, err
		}
		return false, nil
	default:
	}
	var r wire.TerminateResult
	err = p.client.callAs(ctx, Idempotent, cleanUp, wire.MethodProcessTerminate, wire.ProcessParams{ProcessID: p.id}, &r)
	return r.Running, err
}

// Abandon is Terminate for a caller that does not wait. If there is no connection, the
// request is sent on the next one. Once the client has failed, Abandon does nothing: the
// command ends with its session.
func (p *Process) Abandon() {
	p.client.spawn(func() { p.Terminate(p.client.ctx) })
}

// Resize changes the size of the command's terminal.
func (p *Process) Resize(ctx context.Context, rows, cols int) error {
	if !p.client.Has(FeatureResize) {
		return unsupported("resizing a terminal")
	}
	return p.client.Call(ctx, Idempotent, wire.MethodProcessResize,
		wire.ResizeParams{ProcessID: p.id, Rows: cells(rows), Cols: cells(cols)}, nil)
}

// cells limits a size of a terminal to the range that the protocol has.
func cells(n int) uint16 { return uint16(min(max(n, 0), math.MaxUint16)) }

// LastSeq is the number of the last event that has arrived.
func (p *Process) LastSeq() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq.last
}
