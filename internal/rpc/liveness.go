package rpc

import (
	"bytes"
	"context"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// pingInterval is the time between two pings.
	pingInterval = 10 * time.Second

	// suspectAfter is the silence after which a peer is presumed gone. The
	// connection is not ended for that.
	suspectAfter = 20 * time.Second

	// aliveStep is how often Alive looks for the answer, and aliveLooks how many times at
	// least: if the machine was suspended, the answer may have arrived without being read
	// yet.
	aliveStep  = 2 * time.Millisecond
	aliveLooks = 50
)

// liveness records whether the peer is alive. The reader notes most of it.
type liveness struct {
	stream  Stream
	client  bool
	acked   atomic.Uint64 // acknowledged bytes at the last lookup
	ackedAt moment        // when that number last changed

	writes uint64        // writer.writes at the last tick
	stuck  atomic.Uint64 // the write that had not returned between two ticks; 0: none

	// See Signs.
	reading                          atomic.Bool
	messages, answers, pong, reports atomic.Uint64
	unheard                          atomic.Int64
}

func (l *liveness) init(stream Stream, client bool) {
	l.stream, l.client = stream, client
	l.ackedAt.begin()
}

// noteProgress looks up how many bytes the peer has acknowledged.
func (l *liveness) noteProgress() {
	if n := l.stream.Acknowledged(); l.acked.Swap(n) != n {
		l.ackedAt.note()
	}
}

// lastSign is when the peer last gave a sign of life: it sent or acknowledged something.
func (l *liveness) lastSign() time.Time {
	at := l.stream.LastRead()
	if acked := l.ackedAt.time(); acked.After(at) {
		at = acked
	}
	return at
}

// control handles a ping or pong. The reader calls it.
func (c *Conn) control(kind Control, payload []byte) {
	if kind != Ping {
		c.liveness.ponged(payload)
		return
	}
	if c.config.Client {
		c.liveness.reported(payload)
	}
	c.writer.queue.pong(payload)
	c.writer.signal()
}

// tick notes progress and sends a ping.
func (c *Conn) tick() {
	c.liveness.noteProgress()
	c.noteWrites()
	c.timers.mu.Lock()
	defer c.timers.mu.Unlock()
	if c.timers.closer == nil { // the connection is not ending
		c.Ping()
		c.timers.pinger.Reset(pingInterval)
	}
}

// noteWrites notes whether the peer has taken nothing since the last tick. Only tick calls it.
func (c *Conn) noteWrites() {
	now := c.writer.writes.Load()
	stuck := uint64(0)
	if now%2 == 1 && now == c.liveness.writes {
		stuck = now
	}
	c.liveness.writes = now
	c.liveness.stuck.Store(stuck)
}

// Slow reports whether the peer keeps a message waiting that it has not taken for 10 to 20 s.
func (c *Conn) Slow() bool {
	stuck := c.liveness.stuck.Load()
	return stuck != 0 && stuck == c.writer.writes.Load()
}

// Ping asks the peer for a sign of life, if the stream has pings. When the peer has
// answered, Signs.Pong is the returned number or a higher one.
func (c *Conn) Ping() (number uint64) {
	number = c.writer.queue.ping()
	c.writer.signal()
	return number
}

// CanPing reports whether the stream has pings.
func (c *Conn) CanPing() bool { return len(c.stream.Control(nil, Ping, nil)) > 0 }

// LastRead is when bytes last arrived from the peer.
func (c *Conn) LastRead() time.Time { return c.stream.LastRead() }

// HeardSince reports whether bytes have arrived from the peer since t. On a stream
// without pings silence proves nothing, so the result is true.
func (c *Conn) HeardSince(t time.Time) bool {
	return c.stream.LastRead().After(t) || !c.CanPing()
}

// Alive reports whether the peer is alive. After a long silence it is not.
// Otherwise it is pinged and has until the deadline of ctx to answer.
func (c *Conn) Alive(ctx context.Context) bool {
	c.liveness.noteProgress()
	if time.Since(c.liveness.lastSign()) > suspectAfter {
		return false
	}
	before := c.stream.LastRead()
	c.Ping()
	look := time.NewTicker(aliveStep)
	defer look.Stop()
	var late <-chan struct{} // the deadline counts only after aliveLooks
	for looks := 1; ; looks++ {
		if looks > aliveLooks {
			late = ctx.Done()
		}
		select {
		case <-look.C:
			if !c.stream.LastRead().Equal(before) {
				return c.ctx.Err() == nil // the close frame of a peer that leaves is no sign of life
			}
		case <-c.ctx.Done():
			return false
		case <-late:
			return false
		}
	}
}

// Signs are the facts from which a client tells a slow connection from a dead one.
// Counters only grow.
type Signs struct {
	Received uint64 // bytes that have arrived
	Messages uint64 // bytes of the whole messages among them
	Answers  uint64 // responses and pongs
	Pong     uint64 // the highest number of an answered ping, see Ping

	// Reading is false while the connection handles a message: further bytes may
	// wait unread.
	Reading bool

	// Acknowledged counts the bytes that the peer is known to have received;
	// Unacknowledged reports whether other bytes are on their way.
	Acknowledged   uint64
	Unacknowledged bool

	// A server says in each ping for how long it has received nothing from the client.
	Reports uint64 // how many such pings arrived
	Unheard time.Duration
}

// Signs returns the current signs.
func (c *Conn) Signs() Signs {
	l := &c.liveness
	return Signs{
		Received: c.stream.Received(), Messages: l.messages.Load(), Answers: l.answers.Load(), Pong: l.pong.Load(), Reading: l.reading.Load(),
		Acknowledged: c.stream.Acknowledged(), Unacknowledged: c.stream.Unacknowledged(),
		Reports: l.reports.Load(), Unheard: time.Duration(l.unheard.Load()),
	}
}

// ponged notes a pong. A pong whose payload is not one of our numbers is a sign of life
// too.
func (l *liveness) ponged(payload []byte) {
	if n, err := strconv.ParseUint(string(payload), 10, 64); err == nil {
		l.pong.Store(max(l.pong.Load(), n)) // only the reader stores
	}
	l.answers.Add(1)
}

// unheardPrefix begins the payload of a server's ping. Milliseconds follow.
var unheardPrefix = []byte("unheard-ms=")

// pingPayload is, from a client, the number of the ping. From a server it is for how long
// the server has received nothing, so that a client learns that its requests do not arrive.
// It is 0 while the server is not reading because it handles a message.
func (l *liveness) pingPayload(number uint64) []byte {
	if l.client {
		return strconv.AppendUint(nil, number, 10)
	}
	var unheard time.Duration
	if l.reading.Load() {
		unheard = max(0, time.Since(l.stream.LastRead()))
	}
	return strconv.AppendInt(bytes.Clone(unheardPrefix), unheard.Milliseconds(), 10)
}

// reported notes the silence that a server's ping reports.
func (l *liveness) reported(payload []byte) {
	digits, ok := bytes.CutPrefix(payload, unheardPrefix)
	if !ok {
		return
	}
	if ms, err := strconv.ParseUint(string(digits), 10, 40); err == nil {
		l.unheard.Store(int64(time.Duration(ms) * time.Millisecond))
		l.reports.Add(1)
	}
}
