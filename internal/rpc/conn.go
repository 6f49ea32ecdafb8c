package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tetherexec/tether/wire"
)

// Limits of a connection.
const (
	// MaxRequests is how many requests may be unanswered; above it nothing is
	// read from the peer.
	MaxRequests = 4096

	// maxRequestBytes is how large unanswered requests may be together. One
	// message of the largest size always fits.
	maxRequestBytes = 2 * MaxMessage

	// MaxAnswerBytes is how large the answers may be that wait for the peer to
	// take them. Large answers take a permit before their data is read.
	MaxAnswerBytes = 64 << 20

	// closeGrace is how long the last words to a peer may take.
	closeGrace = time.Second

	// pingInterval is how often a quiet peer is asked for a sign of life.
	pingInterval = 10 * time.Second

	// suspectAfter is the silence after which a peer is thought to be gone,
	// though it is not given up.
	suspectAfter = 20 * time.Second
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
	ParsePrefix string // of the error that answers a message which is none
}

// A Conn is one connection to a peer.
type Conn struct {
	stream  Stream
	handler Handler
	log     *slog.Logger
	prefix  string
	ctx     context.Context // ends with the connection
	cancel  context.CancelCauseFunc
	pinger  *time.Timer

	requests admission
	permits  *semaphore.Weighted // bytes of large answers
	acked    atomic.Uint64       // acknowledged bytes when the pinger looked last
	alive    atomic.Int64        // when acked changed last, unix nanoseconds

	wake chan struct{} // there is something to write

	mu      sync.Mutex
	answers []answer // oldest first
	ready   []*Feed  // sources that have something, in turn
	pong    []byte   // answer to the newest ping; nil if none is due
	ping    bool     // a ping is due
	ending  error    // why the connection ends; nil while it does not
	calls   map[int64]chan<- wire.Message
	lastID  int64
}

// An answer is an encoded message that waits for the writer.
type answer struct {
	msg     []byte
	request int    // size of the request it answers; -1 for other messages
	permit  int64  // bytes to give back
	written func() // may be nil
}

// New returns a connection that does nothing until Serve is called.
func New(ctx context.Context, stream Stream, c Config) *Conn {
	conn := &Conn{
		stream: stream, handler: c.Handler, log: c.Log, prefix: c.ParsePrefix,
		permits: semaphore.NewWeighted(MaxAnswerBytes),
		wake:    make(chan struct{}, 1),
	}
	conn.ctx, conn.cancel = context.WithCancelCause(ctx)
	conn.requests.init()
	return conn
}

// Context ends with the connection.
func (c *Conn) Context() context.Context { return c.ctx }

// Serve reads and writes until the connection ends, and returns why. It never
// returns nil.
func (c *Conn) Serve() error {
	stop := context.AfterFunc(c.ctx, func() { c.Close(context.Cause(c.ctx)) })
	defer stop()
	c.alive.Store(time.Now().UnixNano())
	c.stream.OnControl(c.control)
	c.pinger = time.AfterFunc(pingInterval, c.tick)
	var writer sync.WaitGroup
	writer.Go(c.writeLoop)
	c.Close(c.readLoop())
	writer.Wait()
	c.pinger.Stop()
	return c.reason()
}

// Close ends the connection. What is queued is still sent, and a peer that can
// see it is told a *CloseError; both within closeGrace.
func (c *Conn) Close(why error) {
	c.mu.Lock()
	first := c.ending == nil
	if first {
		c.ending = why
	}
	c.mu.Unlock()
	if !first {
		return
	}
	c.cancel(why)
	c.requests.close()
	if _, ok := errors.AsType[*CloseError](why); ok {
		time.AfterFunc(closeGrace, func() { c.stream.Close() })
	} else {
		c.stream.Close()
	}
	c.signal()
}

func (c *Conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}

func (c *Conn) readLoop() error {
	for {
		data, err := c.stream.Read()
		if err != nil {
			return err
		}
		msg, err := wire.Parse(data)
		if err != nil {
			c.push(answer{msg: wire.AppendError(nil, wire.IntID(-1), wire.Errorf(wire.CodeInvalidRequest, "%s%v", c.prefix, err)), request: -1})
			continue
		}
		switch msg.Kind {
		case wire.KindRequest:
			if !c.requests.enter(len(data)) {
				return c.reason()
			}
			c.handler.Request(&Request{ID: msg.ID, Method: msg.Method, Params: msg.Params, conn: c, size: len(data)})
		case wire.KindNotification:
			if err := c.handler.Notification(msg.Method, msg.Params); err != nil {
				return err
			}
		default:
			if err := c.resolve(msg); err != nil {
				return err
			}
		}
	}
}

// control is told about pings and pongs by the reader.
func (c *Conn) control(kind Control, payload []byte) {
	if kind != Ping {
		return // Heard has noted it
	}
	c.mu.Lock()
	c.pong = append(make([]byte, 0, len(payload)), payload...) // not nil
	c.mu.Unlock()
	c.signal()
}

// tick looks for signs of life and asks for one.
func (c *Conn) tick() {
	c.noteProgress()
	c.mu.Lock()
	ended := c.ending != nil
	c.ping = true
	c.mu.Unlock()
	if !ended {
		c.signal()
		c.pinger.Reset(pingInterval)
	}
}

func (c *Conn) noteProgress() {
	if n := c.stream.Acknowledged(); c.acked.Swap(n) != n {
		c.alive.Store(time.Now().UnixNano())
	}
}

// heard is when the peer last gave a sign of life.
func (c *Conn) heard() time.Time {
	at := c.stream.Heard()
	if progress := time.Unix(0, c.alive.Load()); progress.After(at) {
		at = progress
	}
	return at
}

// Alive reports whether the peer is there: it is not if it was silent for long,
// and otherwise it is asked and has until the deadline of ctx to answer.
func (c *Conn) Alive(ctx context.Context) bool {
	c.noteProgress()
	if time.Since(c.heard()) > suspectAfter {
		return false
	}
	asked := time.Now()
	c.mu.Lock()
	c.ping = true
	c.mu.Unlock()
	c.signal()
	look := time.NewTicker(aliveStep)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if c.stream.Heard().After(asked) {
				return true
			}
		case <-c.ctx.Done():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// aliveStep is how often Alive looks for the answer.
const aliveStep = 2 * time.Millisecond

// Call sends a request to the peer and returns its result. A peer's error is
// returned as a *wire.Error.
func (c *Conn) Call(ctx context.Context, method string, params any) (wire.RawValue, error) {
	reply := make(chan wire.Message, 1)
	c.mu.Lock()
	c.lastID++
	id := c.lastID
	if c.calls == nil {
		c.calls = map[int64]chan<- wire.Message{}
	}
	c.calls[id] = reply
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}()
	msg, err := wire.AppendRequest(nil, wire.IntID(id), method, params)
	if err != nil {
		return nil, err
	}
	c.push(answer{msg: msg, request: -1})
	select {
	case m := <-reply:
		if m.Err != nil {
			return nil, m.Err
		}
		return m.Result, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	}
}

// resolve hands a response to its caller. A late one is ignored, one that
// nobody can have asked for ends the connection.
func (c *Conn) resolve(m wire.Message) error {
	id, ok := m.ID.Int()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok || id < 1 || id > c.lastID {
		return &CloseError{ClosePolicy, "response to a request that was never sent"}
	}
	if reply, ok := c.calls[id]; ok {
		delete(c.calls, id)
		reply <- m
	}
	return nil
}

// Notify sends a notification.
func (c *Conn) Notify(method string, params any) error {
	msg, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		return err
	}
	c.push(answer{msg: msg, request: -1})
	return nil
}

// IsDisconnect reports whether err means that the peer is gone, as opposed to
// having done something wrong.
func IsDisconnect(err error) bool {
	_, violation := errors.AsType[*CloseError](err)
	return !violation || errors.Is(err, io.EOF)
}
