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
	// closeGrace is how long sending the last messages and the close frame may
	// take.
	closeGrace = time.Second

	// answerGrace is how long requests may take to be answered after Dismiss. It
	// leaves a part of closeGrace for the close frame.
	answerGrace = closeGrace / 2

	// leaveGrace is how long requests may take to be answered after Leave. The process
	// does not live that long.
	leaveGrace = time.Minute

	// lingerTime is how long the stream stays open for reading after the close
	// frame was sent. After that, bytes of the peer are answered with a reset.
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

// Config is the configuration of a connection.
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

	// Memory is shared by all connections of a server. If it is nil, the connection
	// has its own.
	Memory *Memory

	// Urgent, if set, reports whether requests of a method are admitted even if the
	// connection has many unanswered requests. Such requests are small and answered at
	// once.
	Urgent func(method string) bool

	// Refusal, if set, returns the answer to a request for which there was no room. If
	// it returns nil, the connection ends instead. That is for methods whose later
	// requests must not take effect without the earlier ones.
	Refusal func(method string) *wire.Error

	// LastMessage, if set, returns the last message of the connection, or nil. On a WebSocket
	// it is sent before the close frame. It is not sent if the connection ends in the
	// middle of another message. The writer calls it.
	LastMessage func(*CloseError) []byte

	// Peek, if set, sees each message before it is parsed. If it reports taken, the
	// message is not handled further. It is called like the methods of the Handler.
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

// timers are the timers of a connection.
type timers struct {
	linger time.Duration // lingerTime, except in tests

	mu      sync.Mutex
	pinger  *time.Timer
	closer  *time.Timer // closes the stream after closeGrace; nil until the connection begins to end
	answers *time.Timer // ends the wait for answers; nil unless the connection was dismissed
	told    func()      // see Leave; may be nil
}

// New returns a connection that does nothing until Serve is called.
func New(ctx context.Context, stream Stream, config Config) *Conn {
	c := &Conn{stream: stream, config: config, served: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.timers.linger = lingerTime
	c.allowance.init(config.Memory, config.Client)
	c.liveness.init(stream, config.Client)
	c.writer.init(stream, &c.allowance, &c.liveness, config.LastMessage, c.Close)
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

// Close ends the connection; the first call says why. If the peer may still be
// there, queued messages are sent first, and on a WebSocket a *CloseError is sent
// as a close frame. Both happen within closeGrace.
func (c *Conn) Close(why error) { c.end(why, false) }

// Dismiss is Close for a connection whose requests are about to be answered:
// answers that are given within answerGrace are sent before the close frame.
// Nothing else is sent, and no further request is read.
func (c *Conn) Dismiss(why *CloseError) { c.end(why, true) }

// Leave is Dismiss for a server that another process replaces. A request whose answer is not among those
// before the close frame was not carried out: no request is admitted from now on, and the close frame comes
// after the last answer, or not at all. Context does not end before that. told is called
// when the close frame was written, or the connection has ended without one; the caller does not wait
// longer than it can, and ends the process.
func (c *Conn) Leave(why *CloseError, told func()) {
	c.allowance.requests.close() // before the writer may find that there is nothing left to answer
	if !c.beginEnd(why, true, told) {
		told()
		return
	}
	c.writer.signal()
}

func (c *Conn) end(why error, awaitAnswers bool) {
	if !c.beginEnd(why, awaitAnswers, nil) {
		return
	}
	c.cancel(why)
	c.allowance.requests.close()
	if _, told := errors.AsType[*CloseError](why); !told && !errors.Is(why, io.EOF) {
		c.stream.Close()
	}
	c.writer.signal()
}

// beginEnd notes why the connection ends, and starts the timers of its end. told is that of Leave; otherwise it is
// nil. beginEnd reports false if the connection is already ending.
func (c *Conn) beginEnd(why error, awaitAnswers bool, told func()) bool {
	t := &c.timers
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closer != nil {
		return false
	}
	c.writer.queue.end(why, awaitAnswers) // before the timers start, because they change the queue
	if told != nil {
		t.told, t.closer = told, time.AfterFunc(leaveGrace, func() { c.stream.Close() })
		return true
	}
	t.closer = time.AfterFunc(closeGrace, func() { c.stream.Close() })
	if awaitAnswers {
		t.answers = time.AfterFunc(answerGrace, c.writer.stopAwaitingAnswers)
	}
	return true
}

// write writes until the connection has ended. After a close frame, the peer gets lingerTime to
// read it.
func (c *Conn) write() {
	defer c.writer.dropQueued()
	complete := c.writer.run()
	c.timers.mu.Lock()
	leaving := c.timers.told
	c.timers.mu.Unlock()
	if leaving != nil {
		c.cancel(c.writer.queue.reason())
		leaving()
	}
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
	if t.answers != nil {
		t.answers.Stop()
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
// peer is behind. The caller limits how many messages it queues: written is called when the
// stream has taken the message. The goroutine that writes calls it, so it must not wait
// either. It is not called if the connection ends before.
func (c *Conn) NotifyNow(method string, params any, written func()) error {
	msg, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		return err
	}
	c.writer.send(outgoing{msg: msg, written: written})
	return nil
}

// NotifyIfRoom is Notify, except that the message is dropped if the peer is far behind. Then
// the result is false.
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

// send sends a request or notification of this side when there is room for it.
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
