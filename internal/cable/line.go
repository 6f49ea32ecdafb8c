package cable

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/wake"
)

const (
	// maxQueued is how much one direction of a connection queues before its sender
	// has to wait. It limits the bytes on their way at high latency.
	maxQueued = 4 << 20
	// rateSteps is the number of pieces per second into which a slow line divides
	// its bytes.
	rateSteps = 50
)

// An item is a queued message, or other bytes.
type item struct {
	kind     Kind
	raw      []byte // as it was sent, with framing
	payload  []byte // without framing
	came     time.Time
	due      time.Time
	lost     error  // of an end: the connection was lost
	injected bool   // sent by the cable itself: rules do not see it
	mark     func() // called when it is queued, before it is sent; may be nil
}

// A line is one direction of a link: a queue with a goroutine that fills it and one
// that empties it.
type line struct {
	link *link
	from Direction
	in   *bufio.Reader
	out  net.Conn
	more wake.Signal // an item was queued
	room wake.Signal // an item was taken

	mu     sync.Mutex
	queue  []item
	queued int // bytes

	muted  atomic.Bool // further bytes are swallowed
	closed sync.Once   // the receiver was told of the end

	// Only used by the writer.
	parked []parked
	free   time.Time // when a slow line can send more
}

// parked is a message that waits until others have overtaken it.
type parked struct {
	frame []byte
	left  int // number of messages that must overtake it first
}

func newLine(l *link, from Direction, in *bufio.Reader, out net.Conn) *line {
	return &line{link: l, from: from, in: in, out: out, more: wake.New(), room: wake.New()}
}

// push queues an item, and waits for room. It reports false if the link was
// severed.
func (l *line) push(it item) bool {
	it.came = time.Now()
	it.due = it.came.Add(l.link.c.conditions.lag())
	for {
		if l.link.isSevered() {
			return false
		}
		if l.tryPush(it) {
			return true
		}
		select {
		case <-l.room:
		case <-l.link.severed:
			return false
		}
	}
}

func (l *line) tryPush(it item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queued >= maxQueued && !it.injected {
		return false
	}
	l.queue = append(l.queue, it)
	l.queued += len(it.raw)
	if it.mark != nil {
		it.mark()
	}
	l.more.Send()
	return true
}

// inject queues a frame of the cable itself, even if the queue is full.
func (l *line) inject(frame []byte) {
	l.tryPush(item{raw: frame, injected: true})
}

// pop takes the next item. It reports false if the link was severed.
func (l *line) pop() (item, bool) {
	for {
		if l.link.isSevered() {
			return item{}, false
		}
		l.mu.Lock()
		if len(l.queue) > 0 {
			it := l.queue[0]
			l.queue[0] = item{}
			l.queue = l.queue[1:]
			l.queued -= len(it.raw)
			l.mu.Unlock()
			l.room.Send()
			return it, true
		}
		l.queue = nil
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-l.link.severed:
			return item{}, false
		}
	}
}

// write forwards the queue until the sender has ended or the link was severed.
func (l *line) write() {
	for {
		it, ok := l.pop()
		if !ok || !l.link.sleep(time.Until(it.due)) || !l.awaitThaw() {
			return
		}
		if it.kind == end {
			l.overtaken(-1)
			if it.lost != nil {
				l.link.sever("lost: "+it.lost.Error(), true)
				return
			}
			l.end()
			return
		}
		l.deliver(it)
	}
}

// end tells the receiver that nothing more comes.
func (l *line) end() {
	l.closed.Do(func() {
		if l.link.left.Load() != 0 {
			l.link.sever("the server has ended it", false) // the client has left before
			return
		}
		if half, ok := l.out.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // it may have ended already
		}
	})
}

// halfClose ends this direction now. The sender is not told.
func (l *line) halfClose() {
	l.muted.Store(true)
	l.end()
}

// deliver applies the rules to an item and forwards it.
func (l *line) deliver(it item) {
	if as := Stranded(l.link.left.Load()); as != 0 && !it.injected {
		if it.kind == PingFrame && as == AnswersPings && l.from == FromServer {
			l.link.lines[FromClient].inject(encode(FromClient, PongFrame, it.payload))
		}
		return
	}
	if it.kind == other {
		l.send(it.raw)
		return
	}
	m := Message{Time: it.came, Link: l.link.number, From: l.from, Kind: it.kind, Raw: it.payload}
	m.parse()
	l.link.asked.resolve(&m)
	v := l.link.c.judge(&m)
	if m.Kind.isData() {
		l.link.c.count(func(s *Stats) {
			s.Messages[l.from]++
			if v.fate != Forwarded {
				s.Touched++
			}
		})
	}
	m.Fate = v.fate
	announce := sync.OnceFunc(func() {
		for _, r := range v.rules {
			r.acted(m)
		}
	})
	if tap := l.link.c.cfg.Tap; tap != nil {
		tap(m)
	}
	l.execute(it, &m, v, announce)
	announce()
}

// execute carries out a verdict. It announces a fault that comes before the message
// at once: after FreezeBefore the message may wait for long.
func (l *line) execute(it item, m *Message, v effect, announce func()) {
	for _, fault := range v.before {
		fault(l.link)
	}
	if len(v.before) > 0 {
		announce()
	}
	if !l.link.sleep(v.delay) || l.link.left.Load() != 0 {
		return
	}
	frame := it.raw
	if v.content != nil {
		frame = encode(l.from, it.kind, v.content)
	}
	if it.kind == CloseFrame {
		l.overtaken(-1) // nothing may follow a close frame
	}
	l.sendTexts(v.precede)
	if !v.drop {
		l.link.asked.note(m)
		for range 1 + v.copies {
			l.route(frame, m, v)
		}
	}
	l.sendTexts(v.follow)
	if v.mute {
		l.muted.Store(true)
	}
	for _, fault := range v.after {
		fault(l.link)
	}
	if m.Kind.isData() && !v.drop && v.hold == nil && v.behind == 0 {
		l.overtaken(1)
	}
}

// route sends a frame now, or stores it where it waits.
func (l *line) route(frame []byte, m *Message, v effect) {
	switch {
	case v.hold != nil && v.hold.keep(l, frame):
		if v.holdFor > 0 {
			l.link.c.releaseLater(v.hold, v.holdFor)
		}
	case v.behind > 0:
		l.parked = append(l.parked, parked{frame, v.behind})
	default:
		if sent := l.link.c.cfg.Sent; l.send(frame) && sent != nil {
			sent(*m)
		}
	}
}

func (l *line) sendTexts(messages [][]byte) {
	for _, text := range messages {
		l.send(encode(l.from, Text, text))
	}
}

// overtaken counts n messages for the parked ones, and sends those that have been
// overtaken often enough. If n is negative, it sends all.
func (l *line) overtaken(n int) {
	kept := l.parked[:0]
	for _, p := range l.parked {
		if p.left -= n; n < 0 || p.left <= 0 {
			l.send(p.frame)
		} else {
			kept = append(kept, p)
		}
	}
	l.parked = kept
}

// send writes bytes at the rate of the line, and reports whether all of them were
// written. If the receiver has ended, it severs the link.
func (l *line) send(b []byte) bool {
	for len(b) > 0 {
		if l.muted.Load() {
			return false
		}
		rate := l.link.c.conditions.currentRate()
		n := len(b)
		if rate > 0 {
			n = int(min(int64(n), max(rate/rateSteps, 1)))
			if !l.link.sleep(time.Until(l.free)) {
				return false
			}
		}
		if !l.awaitThaw() {
			return false
		}
		if _, err := l.out.Write(b[:n]); err != nil {
			if !l.muted.Load() && l.link.left.Load() == 0 { // it was neither half-closed nor stranded meanwhile
				l.link.sever("lost: "+err.Error(), true)
			}
			return false
		}
		if rate > 0 {
			if now := time.Now(); l.free.Before(now.Add(-time.Second / rateSteps)) {
				l.free = now // the line was idle; shorter delays by late timers are made up for
			}
			l.free = l.free.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
		}
		l.link.c.count(func(s *Stats) { s.Bytes[l.from] += int64(n) })
		b = b[n:]
	}
	return true
}

// awaitThaw waits while this direction is frozen. It reports false if the link was
// severed.
func (l *line) awaitThaw() bool {
	select {
	case <-l.link.severed:
		return false
	default:
	}
	select {
	case <-l.link.c.conditions.thawed(l.from):
		return true
	case <-l.link.severed:
		return false
	}
}

// releaseLater releases the oldest message that a rule holds, after d, unless the
// cable ends before.
func (c *Cable) releaseLater(r *Rule, d time.Duration) {
	c.wg.Go(func() { // ends after d or with the cable
		select {
		case <-time.After(d):
			_ = r.release(1) // without a connection the message stays held
		case <-c.ctx.Done():
		}
	})
}
