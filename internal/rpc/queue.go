package rpc

import (
	"slices"
	"sync"
)

// An outgoing message is encoded and waits to be written: an answer, or a request or notification of this
// side.
type outgoing struct {
	msg     []byte
	pieces  Pieces // used instead of msg if not nil
	claim   claim
	written func() // may be nil: called when the stream has taken it
	dropped func() // may be nil: called if the writer did not even try to write it
	settled func() // may be nil: called when it was written or dropped
}

// isLarge reports whether the message is written on its own.
func (m *outgoing) isLarge() bool { return len(m.msg) > largeMessage || m.pieces != nil }

// A sendQueue holds everything that waits to be written: control frames, messages, and the feeds, which
// are asked in turn.
type sendQueue struct {
	mu           sync.Mutex
	control      controlFrames
	messages     []outgoing // oldest first
	feeds        []*Feed    // feeds that have a message, in turn
	ending       error      // why the connection ends; nil while it does not
	awaitAnswers bool       // it ends when the pending requests are answered
}

// controlFrames are the control frames that are to be written.
type controlFrames struct {
	pong    []byte // payload of the newest ping of the peer
	pongDue bool   // that ping is not answered yet
	pingDue bool
	pings   uint64 // pings requested so far
}

// push adds a message. It reports false if the connection is ending and the message
// cannot be sent any more.
func (q *sendQueue) push(m outgoing) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ending != nil && !(q.awaitAnswers && m.claim.request) {
		return false
	}
	q.messages = append(q.messages, m)
	return true
}

// add adds a feed that has a message.
func (q *sendQueue) add(f *Feed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.feeds = append(q.feeds, f)
}

// ping requests a ping and returns its number.
func (q *sendQueue) ping() (number uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.control.pingDue = true
	q.control.pings++
	return q.control.pings
}

// pong requests an answer to a ping. If several pings arrive while the writer is busy, only the newest is
// answered.
func (q *sendQueue) pong(payload []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.control.pong, q.control.pongDue = payload, true
}

// end notes why the connection ends. With awaitAnswers, answers to the pending requests are still sent.
func (q *sendQueue) end(why error, awaitAnswers bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ending, q.awaitAnswers = why, awaitAnswers
}

// stopAwaitingAnswers lets a dismissed connection end without further answers.
func (q *sendQueue) stopAwaitingAnswers() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaitAnswers = false
}

// reason returns why the connection ends, nil if it does not.
func (q *sendQueue) reason() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ending
}

// isSmall reports whether few bytes are queued and the connection is not ending.
func (q *sendQueue) isSmall() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := 0
	for i := range q.messages {
		size += len(q.messages[i].msg)
		if q.messages[i].pieces != nil {
			return false
		}
	}
	return q.ending == nil && size <= inlineSize
}

// isEmpty reports whether there is nothing to write.
func (q *sendQueue) isEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ending == nil && len(q.messages) == 0 && len(q.feeds) == 0
}

// takeControl takes the control frames that are due.
func (q *sendQueue) takeControl() controlFrames {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeControlLocked()
}

func (q *sendQueue) takeControlLocked() controlFrames {
	due := q.control
	q.control = controlFrames{pings: due.pings}
	return due
}

// take moves messages to the batch, enough for one efficient write, and returns the control frames that go before them.
// ending is why the connection ends. b.last is set if nothing follows the batch.
func (q *sendQueue) take(b *Batch, requests *admission) (due controlFrames, ending error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	due = q.takeControlLocked()
	q.takeMessagesLocked(b)
	b.last = q.ending != nil && len(q.messages) == 0 && !b.whole() && !(q.awaitAnswers && requests.more(b.requests()))
	return due, q.ending
}

// takeMessagesLocked moves messages to the batch. A large message gets a batch of
// its own.
func (q *sendQueue) takeMessagesLocked(b *Batch) {
	size, taken := 0, 0
	for i := range q.messages {
		m := &q.messages[i]
		if size >= batchSize {
			break
		}
		if m.isLarge() {
			if taken == 0 {
				b.pieces = m.pieces
				if m.pieces == nil {
					b.large = m.msg
				}
				taken = 1
			}
			break
		}
		size += len(m.msg)
		taken++
	}
	b.outgoing = append(b.outgoing, q.messages[:taken]...)
	q.messages = shift(q.messages, taken)
}

// nextFeed takes the first feed, unless a message waits: messages go first. From here on the feed can be added again,
// so that no later message of the feed is missed.
func (q *sendQueue) nextFeed() *Feed {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.feeds) == 0 || len(q.messages) > 0 {
		return nil
	}
	f := q.feeds[0]
	q.feeds = shift(q.feeds, 1)
	f.queued.Store(false)
	return f
}

// clear empties the queue of a connection that has ended, and returns the messages that were never written.
func (q *sendQueue) clear() []outgoing {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.messages
	q.messages, q.feeds, q.awaitAnswers = nil, nil, false
	return left
}

// keepQueued is the capacity that the queues of an idle connection keep.
const keepQueued = 64

// shift removes the first n elements of a queue.
func shift[T any](queue []T, n int) []T {
	queue = slices.Delete(queue, 0, n)
	if len(queue) == 0 && cap(queue) > keepQueued {
		return nil
	}
	return queue
}
