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
	MaxAnswerBytes = 32 << 20

	// maxOwnBytes is how large our own requests and notifications may be that
	// wait for the peer to take them; maxNoteBytes is the same for a server, which
	// has many peers and few requests.
	maxOwnBytes  = 64 << 20
	maxNoteBytes = 4 << 20

	// messageCost is what a queued message costs besides its bytes.
	messageCost = 128

	// closeGrace is how long the last words to a peer may take.
	closeGrace = time.Second

	// answerGrace is how long requests may take to be answered when their
	// connection is dismissed; it leaves some of closeGrace for the goodbye.
	answerGrace = closeGrace / 2

	// lingerTime is how long a peer that was told goodbye may take to leave,
	// before the rest of what it sends is answered with a reset.
	lingerTime = 250 * time.Millisecond

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

	// Client makes the connection treat its peer as a client treats a server: a
	// message that is none ends the connection, and an answer to a question that
	// was never asked is ignored.
	Client bool

	// Salvage, if set, makes the connection tolerant: an answer to a question that
	// was never asked is ignored, and a message that is none is dropped, unless
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
	stream  Stream
	handler Handler
	log     *slog.Logger
	prefix  string
	client  bool
	last    func(*CloseError) []byte
	salvage func([]byte) (wire.ID, bool)
	peek    func([]byte) (bool, error)
	ctx     context.Context // ends with the connection
	cancel  context.CancelCauseFunc
	linger  time.Duration

	memory   *Memory
	room     arrival // of the message that is being read
	urgent   func(string) bool
	refusal  func(string) *wire.Error
	requests admission
	permits  *semaphore.Weighted // bytes of large answers
	spare    *semaphore.Weighted // bytes of those that need no room in memory
	own      *semaphore.Weighted // bytes of our own requests and notifications
	maxOwn   int64               // of them
	acked    atomic.Uint64       // acknowledged bytes when the pinger looked last
	alive    moment              // when acked changed last

	signs signs

	wake   chan struct{} // there is something to write
	served chan struct{} // closed when nothing is read or written any more

	out  sync.Mutex // held by who writes
	rest *Batch     // what a flush could not write; the next thing to be written
	eager

	mu      sync.Mutex
	answers []answer // oldest first
	ready   []*Feed  // sources that have something, in turn
	pong    []byte   // payload of the newest ping
	pongDue bool     // it is not answered yet
	ping    bool     // a ping is due
	pings   uint64   // asked for so far
	ending  error    // why the connection ends; nil while it does not
	owing   bool     // it ends when the requests that are under way are answered
	pinger  *time.Timer
	closer  *time.Timer // closes the stream when its time is over; set with ending
	debts   *time.Timer // ends owing; nil unless the connection was dismissed
	calls   map[int64]*Call
	lastID  int64
}

// An answer is an encoded message that waits for the writer.
type answer struct {
	msg     []byte
	request bool   // it answers a request
	held    int    // what to give back to requests
	free    bool   // which have no room in memory
	charge  int64  // what to give back to memory
	permit  permit // what to give back
	own     int64  // what to give back to own, if it is no answer
	pieces  Pieces // instead of msg
	written func() // may be nil
	dropped func() // may be nil: it was not even tried to be written
	settled func() // may be nil: it was written or dropped
}

// New returns a connection that does nothing until Serve is called.
func New(ctx context.Context, stream Stream, c Config) *Conn {
	conn := &Conn{
		stream: stream, handler: c.Handler, log: c.Log, prefix: c.ParsePrefix, client: c.Client, last: c.Farewell, salvage: c.Salvage, peek: c.Peek,
		memory: c.Memory, urgent: c.Urgent, refusal: c.Refusal,
		permits: semaphore.NewWeighted(MaxAnswerBytes),
		spare:   semaphore.NewWeighted(spareAnswers),
		maxOwn:  maxNoteBytes,
		wake:    make(chan struct{}, 1),
		served:  make(chan struct{}),
		linger:  lingerTime,
	}
	if c.Client {
		conn.maxOwn = maxOwnBytes
	}
	conn.own = semaphore.NewWeighted(conn.maxOwn)
	if conn.memory == nil {
		conn.memory = NewMemory()
	}
	conn.ctx, conn.cancel = context.WithCancelCause(ctx)
	conn.alive.begin()
	conn.requests.init()
	conn.room = arrival{memory: conn.memory, ctx: conn.ctx, waiting: func(waits bool) { conn.signs.reading.Store(!waits) }}
	if l, ok := stream.(limited); ok {
		l.limit(&conn.room)
	}
	return conn
}

// Context ends with the connection.
func (c *Conn) Context() context.Context { return c.ctx }

// Serve reads and writes until the connection ends, and returns why. It never
// returns nil.
func (c *Conn) Serve() error {
	defer close(c.served)
	stop := context.AfterFunc(c.ctx, func() { c.Close(context.Cause(c.ctx)) })
	defer stop()
	c.alive.note()
	c.stream.OnControl(c.control)
	c.mu.Lock()
	c.pinger = time.AfterFunc(pingInterval, c.tick)
	c.mu.Unlock()
	var writer sync.WaitGroup
	writer.Go(c.writeLoop)
	c.Close(c.readLoop())
	c.room.drop()
	c.stream.Drain()
	writer.Wait()
	c.dropRest()
	c.stream.Close()
	return c.stopTimers()
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
	_, told := errors.AsType[*CloseError](why)
	c.mu.Lock()
	if c.ending != nil {
		c.mu.Unlock()
		return
	}
	c.ending, c.owing = why, owing
	c.closer = time.AfterFunc(closeGrace, func() { c.stream.Close() })
	if owing {
		c.debts = time.AfterFunc(answerGrace, c.stopOwing)
	}
	c.mu.Unlock()
	c.cancel(why)
	c.requests.close()
	if !told && !errors.Is(why, io.EOF) {
		c.stream.Close()
	}
	c.signal()
}

// stopOwing lets a dismissed connection end without further answers.
func (c *Conn) stopOwing() {
	c.mu.Lock()
	c.owing = false
	c.mu.Unlock()
	c.signal()
}

// stopTimers returns why the connection has ended.
func (c *Conn) stopTimers() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinger.Stop()
	c.closer.Stop()
	if c.debts != nil {
		c.debts.Stop()
	}
	return c.ending
}

func (c *Conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}

func (c *Conn) readLoop() error {
	for {
		c.signs.reading.Store(true)
		data, err := c.stream.Read()
		if err != nil && !errors.Is(err, errRefused) {
			return err
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		c.signs.reading.Store(false)
		c.signs.told.Add(uint64(len(data)))
		charge, ok := c.room.take()
		if err == nil && ok {
			err = c.receive(data, charge)
		} else {
			err = c.refuse(data)
		}
		if err != nil {
			return err
		}
	}
}

// receive does what a message says. charge is the room that it has.
func (c *Conn) receive(data []byte, charge int64) error {
	if c.peek != nil {
		if taken, err := c.peek(data); taken || err != nil {
			c.memory.in.Release(charge)
			return err
		}
	}
	msg, err := wire.Parse(data)
	unnamed := wire.IntID(-1) // for a request of which nothing is known
	if err != nil && c.salvage != nil {
		id, waits := c.salvage(data)
		if !waits {
			c.memory.in.Release(charge)
			c.log.Debug("dropped what is not a message", "err", err)
			return nil
		}
		unnamed = id
	}
	if err != nil && c.client {
		return violation(CloseBadData, "not a message: "+err.Error())
	}
	if err != nil || msg.Kind == wire.KindRequest {
		r := &Request{ID: msg.ID, Method: msg.Method, Params: msg.Params, conn: c, size: len(data), charge: charge}
		if err != nil {
			r.ID = unnamed
		}
		in, ending := c.admit(r)
		switch {
		case !in:
			return ending
		case err != nil:
			r.Fail(wire.Errorf(wire.CodeInvalidRequest, "%s%v", c.prefix, err))
		default:
			c.handler.Request(r)
		}
		return nil
	}
	defer c.memory.in.Release(charge)
	if msg.Kind == wire.KindNotification {
		return c.handler.Notification(msg.Method, msg.Params)
	}
	c.signs.answers.Add(1)
	return c.resolve(msg)
}

// control is told about pings and pongs by the reader. However many pings come
// while the writer is busy, the newest is answered.
func (c *Conn) control(kind Control, payload []byte) {
	if kind != Ping {
		c.signs.ponged(payload)
		return
	}
	if c.client {
		c.signs.reported(payload)
	}
	c.mu.Lock()
	c.pong, c.pongDue = payload, true
	c.mu.Unlock()
	c.signal()
}

// tick looks for signs of life and asks for one.
func (c *Conn) tick() {
	c.noteProgress()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending == nil {
		c.ping = true
		c.pings++
		c.signal()
		c.pinger.Reset(pingInterval)
	}
}

func (c *Conn) noteProgress() {
	if n := c.stream.Acknowledged(); c.acked.Swap(n) != n {
		c.alive.note()
	}
}

// heard is when the peer last gave a sign of life.
func (c *Conn) heard() time.Time {
	at := c.stream.Heard()
	if progress := c.alive.time(); progress.After(at) {
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
	before := c.stream.Heard()
	c.Ping()
	look := time.NewTicker(aliveStep)
	defer look.Stop()
	var late <-chan struct{} // it is never too late before all looks
	for looks := 1; ; looks++ {
		if looks > aliveLooks {
			late = ctx.Done()
		}
		select {
		case <-look.C:
			if !c.stream.Heard().Equal(before) {
				return c.ctx.Err() == nil // its last words are no sign of life
			}
		case <-c.ctx.Done():
			return false
		case <-late:
			return false
		}
	}
}

// Ping asks the peer for a sign of life, on streams that have such. Signs.Pong is the
// returned number, or a higher one, when the peer has answered.
func (c *Conn) Ping() (number uint64) {
	c.mu.Lock()
	c.ping = true
	c.pings++
	number = c.pings
	c.mu.Unlock()
	c.signal()
	return number
}

// CanPing reports whether the stream has pings.
func (c *Conn) CanPing() bool { return len(c.stream.Control(nil, Ping, nil)) > 0 }

// Heard is when something last came from the peer.
func (c *Conn) Heard() time.Time { return c.stream.Heard() }

// HeardSince reports whether something has come from the peer since t. On a
// stream without pings nobody can tell: there the answer is yes.
func (c *Conn) HeardSince(t time.Time) bool {
	return c.stream.Heard().After(t) || !c.CanPing()
}

// aliveStep is how often Alive looks for the answer, and aliveLooks how many times at
// least: if the machine stood still, the answer may have come and not been read.
const (
	aliveStep  = 2 * time.Millisecond
	aliveLooks = 50
)

// Notify sends a notification. It waits while the peer is far behind: a Handler
// that must not wait uses a Feed.
func (c *Conn) Notify(method string, params any) error {
	msg, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		return err
	}
	return c.pushOwn(c.ctx, answer{msg: msg})
}

// NotifyLarge is Notify for a message of about size bytes, which is not even encoded
// before there is room for it.
func (c *Conn) NotifyLarge(method string, params any, size int) error {
	a := answer{own: c.ownCost(size)}
	if err := c.own.Acquire(c.ctx, a.own); err != nil {
		return context.Cause(c.ctx)
	}
	var err error
	if a.msg, err = wire.AppendNotification(make([]byte, 0, size), method, params); err != nil {
		c.own.Release(a.own)
		return err
	}
	c.push(a)
	c.flush(false)
	return nil
}

// ownCost is what a message of ours takes of what own may be.
func (c *Conn) ownCost(size int) int64 { return min(int64(size)+messageCost, c.maxOwn) }

// NotifyNow is Notify for who must not wait: the message is queued, however far the
// peer is behind. The caller sees to it that there are not too many: written is called
// when the stream has taken the message, by who writes, so it must not wait either. It
// is not called if the connection ends before.
func (c *Conn) NotifyNow(method string, params any, written func()) error {
	msg, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		return err
	}
	c.push(answer{msg: msg, written: written})
	c.flush(false)
	return nil
}

// NotifyIfRoom is Notify, but for a peer that is far behind: then the message is dropped,
// and the answer is no.
func (c *Conn) NotifyIfRoom(method string, params any) (bool, error) {
	msg, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		return false, err
	}
	a := answer{msg: msg, own: c.ownCost(len(msg))}
	if !c.own.TryAcquire(a.own) {
		return false, nil
	}
	c.push(a)
	c.flush(false)
	return true, nil
}

// IsDisconnect reports whether err means that the peer is gone, as opposed to
// having done something wrong.
func IsDisconnect(err error) bool {
	_, wrong := errors.AsType[*CloseError](err)
	return !wrong || errors.Is(err, io.EOF)
}
