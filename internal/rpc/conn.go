package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/tetherexec/tether/wire"
)

const (
	// closeGrace is how long the last words to a peer may take.
	closeGrace = time.Second

	// answerGrace is how long requests may take to be answered when their
	// connection is dismissed; it leaves some of closeGrace for the goodbye.
	answerGrace = closeGrace / 2

	// lingerTime is how long a peer that was told goodbye may take to leave,
	// before the rest of what it sends is answered with a reset.
	lingerTime = 250 * time.Millisecond
)

// A Handler does what the peer asks for. Its methods are called by the reader,
// in order of arrival, and must not wait.
type Handler interface {
	// Request must see to it that the request is answered exactly once.
	Request(*Request)

	// Notification returns an error to end the connection.
	Notification(method string, params []byte) error
}

// Config is what a connection is made of.
type Config struct {
	Handler     Handler
	Log         *slog.Logger
	ParsePrefix string // of the error that answers a malformed message

	// Client makes the connection treat its peer as a client treats a server: a
	// malformed message ends the connection, and an answer to a request that was
	// never sent is ignored.
	Client bool

	// Salvage, if set, makes the connection tolerant: an answer to a request that
	// was never sent is ignored, and a malformed message is dropped, unless
	// Salvage finds the id under which the peer waits for an answer. It is called
	// like the methods of the Handler.
	Salvage func(msg []byte) (id wire.ID, waits bool)

	// Memory is that of the server, which its connections share; nil: the connection
	// has its own.
	Memory *Memory

	// Urgent, if set, reports whether requests of a method are let in although the
	// connection has many that are not answered: they are small, and answered at once.
	Urgent func(method string) bool

	// Refusal, if set, returns the answer to a request for which there was no room. If
	// that is nil, the connection ends instead: for requests of which a later one must
	// not take effect without the one before it.
	Refusal func(method string) *wire.Error

	// Farewell, if set, returns a message that is sent as the last one before the close
	// frame, on streams without such as the last one of all; nil: none. It is not sent
	// if the connection ends in the middle of another message. It is called by the writer.
	Farewell func(*CloseError) []byte

	// Peek, if set, sees each message before it is parsed, and keeps those that it
	// takes. It is called like the methods of the Handler.
	Peek func(msg []byte) (taken bool, err error)
}

// A Conn is one connection to a peer.
type Conn struct {
	stream Stream
	config Config
	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc
	served chan struct{} // closed when nothing is read or written any more

	allowance allowance
	arrival   arrival // the room for the message that is being read
	writer    writer
	liveness  liveness
	calls     calls
	timers    timers
}

// timers are those of a connection.
type timers struct {
	linger time.Duration // lingerTime, except in tests

	mu     sync.Mutex
	pinger *time.Timer
	closer *time.Timer // closes the stream when its time is over; nil while the connection does not end
	debts  *time.Timer // ends the wait for answers; nil unless the connection was dismissed
}

// New returns a connection that does nothing until Serve is called.
func New(ctx context.Context, stream Stream, config Config) *Conn {
	c := &Conn{stream: stream, config: config, served: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.timers.linger = lingerTime
	c.allowance.init(config.Memory, config.Client)
	c.liveness.init(stream, config.Client)
	c.writer.init(stream, &c.allowance, &c.liveness, config.Farewell, c.Close)
	c.arrival = arrival{memory: c.allowance.memory, ctx: c.ctx, waiting: func(waits bool) { c.liveness.reading.Store(!waits) }}
	if l, ok := stream.(limited); ok {
		l.limit(&c.arrival)
	}
	return c
}

// Context ends with the connection.
func (c *Conn) Context() context.Context { return c.ctx }

// Serve reads and writes until the connection ends, and returns why. It never
// returns nil.
func (c *Conn) Serve() error {
	defer close(c.served)
	stop := context.AfterFunc(c.ctx, func() { c.Close(context.Cause(c.ctx)) })
	defer stop()
	c.liveness.ackedAt.note()
	c.stream.OnControl(c.control)
	c.timers.mu.Lock()
	c.timers.pinger = time.AfterFunc(pingInterval, c.tick)
	c.timers.mu.Unlock()
	var writing sync.WaitGroup
	writing.Go(c.write)
	c.Close(c.read())
	c.arrival.drop()
	c.stream.Drain()
	writing.Wait()
	c.writer.dropRest()
	c.stream.Close()
	c.timers.stop()
	return c.writer.queue.reason()
}

// Close ends the connection; the first call says why. What is queued is still
// sent to a peer that may be there, and it is told a *CloseError if it can see
// such; both within closeGrace.
func (c *Conn) Close(why error) { c.end(why, false) }

// Dismiss is Close for a connection whose requests are about to be answered: the
// answers that are given within answerGrace are sent before the peer is told why.
// Nothing else is, and no request is read any more.
func (c *Conn) Dismiss(why *CloseError) { c.end(why, true) }

func (c *Conn) end(why error, owing bool) {
	if !c.beginEnd(why, owing) {
		return
	}
	c.cancel(why)
	c.allowance.requests.close()
	if _, told := errors.AsType[*CloseError](why); !told && !errors.Is(why, io.EOF) {
		c.stream.Close()
	}
	c.writer.signal()
}

// beginEnd notes why the connection ends, and starts the timers of its end. It reports false if the connection ends
// already.
func (c *Conn) beginEnd(why error, owing bool) bool {
	t := &c.timers
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closer != nil {
		return false
	}
	c.writer.queue.end(why, owing) // before the timers, which change it
	t.closer = time.AfterFunc(closeGrace, func() { c.stream.Close() })
	if owing {
		t.debts = time.AfterFunc(answerGrace, c.writer.stopOwing)
	}
	return true
}

// write writes until the connection has ended. A peer that was told why gets some time to read it.
func (c *Conn) write() {
	defer c.writer.dropQueued()
	complete := c.writer.run()
	e, told := errors.AsType[*CloseError](c.writer.queue.reason())
	if !complete || !told || e.byPeer {
		c.stream.Close()
		return
	}
	c.timers.mu.Lock()
	c.timers.closer.Reset(c.timers.linger)
	c.timers.mu.Unlock()
	c.stream.CloseWrite()
}

func (t *timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pinger.Stop()
	t.closer.Stop()
	if t.debts != nil {
		t.debts.Stop()
	}
}

// Notify sends a notification. It waits while the peer is far behind: a Handler
// that must not wait uses a Feed.
func (c *Conn) Notify(method string, params any) error {
	msg, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		return err
	}
	return c.send(c.ctx, outgoing{msg: msg})
}

// NotifyLarge is Notify for a message of about size bytes, which is not even encoded
// before there is room for it.
func (c *Conn) NotifyLarge(method string, params any, size int) error {
	own, err := c.allowance.acquireOwn(c.ctx, size)
	if err != nil {
		return err
	}
	msg, err := wire.AppendNotification(make([]byte, 0, size), method, params)
	if err != nil {
		c.allowance.own.Release(own)
		return err
	}
	c.writer.send(outgoing{msg: msg, claim: claim{own: own}})
	return nil
}

// NotifyNow is Notify for callers that must not wait: the message is queued, however far the
// peer is behind. The caller sees to it that there are not too many: written is called
// when the stream has taken the message, by the goroutine that writes, so it must not wait
// either. It is not called if the connection ends before.
func (c *Conn) NotifyNow(method string, params any, written func()) error {
	msg, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		return err
	}
	c.writer.send(outgoing{msg: msg, written: written})
	return nil
}

// NotifyIfRoom is Notify, except for a peer that is far behind: then the message is dropped,
// and the result is false.
func (c *Conn) NotifyIfRoom(method string, params any) (bool, error) {
	msg, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		return false, err
	}
	own := c.allowance.ownCost(len(msg))
	if !c.allowance.own.TryAcquire(own) {
		return false, nil
	}
	c.writer.send(outgoing{msg: msg, claim: claim{own: own}})
	return true, nil
}

// send sends a message that is no answer, when there is room for it.
func (c *Conn) send(ctx context.Context, m outgoing) (err error) {
	if m.claim.own, err = c.allowance.acquireOwn(ctx, len(m.msg)); err != nil {
		return err
	}
	c.writer.send(m)
	return nil
}

// IsDisconnect reports whether err means that the peer is gone, as opposed to
// having done something wrong.
func IsDisconnect(err error) bool {
	_, wrong := errors.AsType[*CloseError](err)
	return !wrong || errors.Is(err, io.EOF)
}
