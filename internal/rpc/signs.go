package rpc

import (
	"bytes"
	"strconv"
	"sync/atomic"
	"time"
)

// Signs are what is known about the peer of a connection, for a client that has to tell a
// slow connection from a dead one. Counters only grow.
type Signs struct {
	Received uint64 // bytes that have arrived
	Messages uint64 // bytes of the whole messages among them
	Answers  uint64 // responses and pongs
	Pong     uint64 // the highest number of a ping that was answered, see Ping

	// Reading is false while the connection is busy with a message: bytes may wait.
	Reading bool

	// Acknowledged counts the bytes that the peer is known to have received;
	// Unacknowledged tells whether others are on their way.
	Acknowledged   uint64
	Unacknowledged bool

	// A server tells with each ping for how long it has heard nothing from the client.
	Reports uint64 // how many times it did
	Unheard time.Duration
}

// signs are those that the reader notes.
type signs struct {
	reading       atomic.Bool
	told, answers atomic.Uint64
	pong          atomic.Uint64
	reports       atomic.Uint64
	unheard       atomic.Int64
}

// Signs returns what is known at this moment.
func (c *Conn) Signs() Signs {
	s := &c.signs
	return Signs{
		Received: c.stream.Received(), Messages: s.told.Load(), Answers: s.answers.Load(), Pong: s.pong.Load(), Reading: s.reading.Load(),
		Acknowledged: c.stream.Acknowledged(), Unacknowledged: c.stream.Unacknowledged(),
		Reports: s.reports.Load(), Unheard: time.Duration(s.unheard.Load()),
	}
}

// ponged notes a pong. One with another payload than ours is a sign of life like others.
func (s *signs) ponged(payload []byte) {
	if n, err := strconv.ParseUint(string(payload), 10, 64); err == nil {
		s.pong.Store(max(s.pong.Load(), n)) // only the reader stores
	}
	s.answers.Add(1)
}

// unheardPrefix begins the payload of a server's ping. Milliseconds follow.
var unheardPrefix = []byte("unheard-ms=")

// pingPayload is, from a client, the number of the ping. From a server it is for how long
// the server has heard nothing, so that a client learns that its requests do not arrive. It
// is 0 while the server does not read because it is busy.
func (c *Conn) pingPayload(number uint64) []byte {
	if c.client {
		return strconv.AppendUint(nil, number, 10)
	}
	var unheard time.Duration
	if c.signs.reading.Load() {
		unheard = max(0, time.Since(c.stream.Heard()))
	}
	return strconv.AppendInt(bytes.Clone(unheardPrefix), unheard.Milliseconds(), 10)
}

// reported notes what a server's ping says.
func (s *signs) reported(payload []byte) {
	digits, ok := bytes.CutPrefix(payload, unheardPrefix)
	if !ok {
		return
	}
	if ms, err := strconv.ParseUint(string(digits), 10, 40); err == nil {
		s.unheard.Store(int64(time.Duration(ms) * time.Millisecond))
		s.reports.Add(1)
	}
}

// A Waiting tells about calls that wait for their answers.
type Waiting struct {
	Calls   int
	Oldest  time.Time // when the first of them was begun
	Method  string    // of that one
	Largest int       // bytes of the largest request
}

// Waiting returns which calls wait for their answers, except one, which may be nil.
func (c *Conn) Waiting(except *Call) (w Waiting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		if call == except {
			continue
		}
		if w.Calls == 0 || call.begun.Before(w.Oldest) {
			w.Oldest, w.Method = call.begun, call.method
		}
		w.Calls++
		w.Largest = max(w.Largest, call.size)
	}
	return w
}
