package link

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/tetherexec/tether/internal/wake"
)

// A Link is one stream of bytes in each direction.
type Link struct {
	mux     *Mux
	in, out string // the subjects of frames that arrive, and of those that are sent

	// sending is held while a frame of the outgoing stream is published, so that frames keep their order. It is locked before mu.
	sending sync.Mutex

	mu       sync.Mutex // the lock of the Mux may be taken inside it
	window   uint64
	outgoing outgoing
	incoming incoming
	end      error // why the link has ended; nil while it has not. io.EOF if one end has closed it

	done chan struct{} // closed when the link has ended
}

// outgoing is the stream to the other end.
type outgoing struct {
	sent, acked uint64
	checked     uint64 // sent, when the other end was last told
	fin         bool   // nothing follows
	credit      wake.Signal
	deadline    deadline
}

// room is how many bytes may be sent now. The last quarter of the window counts as none: the other end grants a quarter at once, so that a frame
// which ends with the window would be small, and so would the next one.
func (o *outgoing) room(window uint64) int {
	if left := window - (o.sent - o.acked); left > window/4 {
		return int(left)
	}
	return 0
}

// incoming is the stream from the other end.
type incoming struct {
	items    []item
	notes    int    // among the items
	received uint64 // bytes
	consumed uint64
	granted  uint64 // consumed, when the other end was last told
	fin      bool
	heard    bool // a frame has arrived since the last tick
	arrived  wake.Signal
	deadline deadline
}

// An item is a piece of the incoming stream, or a note between two pieces.
type item struct {
	bytes []byte
	note  bool
	own   bool // bytes may be appended to: the array belongs to this item alone
}

func newLink(m *Mux, in, out string, window int) *Link {
	l := &Link{mux: m, in: in, out: out, window: uint64(clampWindow(window)), done: make(chan struct{})}
	l.outgoing.credit, l.incoming.arrived = wake.New(), wake.New()
	return l
}

func clampWindow(n int) int { return max(minWindow, min(n, maxWindow)) }

// SetWindow sets the size of both windows. The end that accepts a link calls it before any other method.
func (l *Link) SetWindow(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.window = uint64(clampWindow(n))
}

// Done is closed when the link has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// receive takes a frame that has arrived.
func (l *Link) receive(f frame) {
	if e := l.take(f); e != nil {
		l.Abort(e.Code, e.Reason)
	}
	if f.kind == frameCheck && f.rest[0] == 1 {
		l.check(true, false)
		l.grant(0, true)
	}
}

// take changes the state as the frame says. A frame that does not fit is an error, with which the link has to end.
func (l *Link) take(f frame) *EndError {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := &l.incoming
	in.heard = true
	switch f.kind {
	case frameAck:
		if f.number > l.outgoing.sent {
			return &EndError{Misused, "the other end acknowledges bytes that were not sent"}
		}
		l.outgoing.acked = max(l.outgoing.acked, f.number) // those of several readers may overtake each other
		l.outgoing.credit.Send()
		return nil
	case frameClose:
		l.endLocked(closeReason(parseClose(f.rest)))
		return nil
	case frameOpen:
		return &EndError{Misused, "the link was opened twice"}
	}
	// The others say how long the stream was before them.
	if f.number != in.received {
		return &EndError{Lost, fmt.Sprintf("a part of the stream is missing: byte %d follows byte %d", f.number, in.received)}
	}
	switch {
	case f.kind == frameCheck || l.end != nil:
		return nil
	case in.fin:
		return &EndError{Misused, "the other end sends after its end"}
	case f.kind == frameFin:
		in.fin = true
		l.forgetIfOverLocked()
	case f.kind == frameNote:
		if len(f.rest) > maxNote || in.notes >= maxNotes {
			return &EndError{Misused, "too many or too long notes"}
		}
		in.notes++
		in.items = append(in.items, item{bytes: f.rest, note: true})
	default:
		if in.received+uint64(len(f.rest))-in.consumed > l.window {
			return &EndError{Misused, "the other end sends more than the window allows"}
		}
		in.received += uint64(len(f.rest))
		in.add(f.rest)
	}
	in.arrived.Send()
	return nil
}

// smallPiece is the length below which pieces that wait for the reader are put together: their number is not bounded
// otherwise, and each takes memory.
const smallPiece = 4 << 10

// add adds a piece of the stream. It keeps b.
func (in *incoming) add(b []byte) {
	if n := len(in.items); n > 0 && len(b) < smallPiece && !in.items[n-1].note {
		last := &in.items[n-1]
		if !last.own && len(last.bytes) < smallPiece {
			last.bytes, last.own = append(make([]byte, 0, 2*smallPiece), last.bytes...), true
		}
		if last.own && len(last.bytes)+len(b) <= cap(last.bytes) {
			last.bytes = append(last.bytes, b...)
			return
		}
		b = append(make([]byte, 0, 2*smallPiece), b...)
		in.items = append(in.items, item{bytes: b, own: true})
		return
	}
	in.items = append(in.items, item{bytes: b})
}

// closeReason is the end of a link that the other end has closed.
func closeReason(e *EndError) error {
	if e.Code == Closed {
		return io.EOF
	}
	return e
}

// endLocked ends the link. The first call says why. What has arrived can still be read, unless this end has closed the link.
func (l *Link) endLocked(why error) bool {
	if l.end != nil {
		return false
	}
	l.end = why
	close(l.done)
	l.outgoing.credit.Send()
	l.incoming.arrived.Send()
	l.outgoing.deadline.stop()
	l.incoming.deadline.stop()
	l.mux.remove(l)
	return true
}

// forgetIfOverLocked ends the link if both streams have ended.
func (l *Link) forgetIfOverLocked() {
	if l.incoming.fin && l.outgoing.fin {
		l.endLocked(io.EOF)
	}
}

// Close ends both streams. The other end reads what was written before.
func (l *Link) Close() error {
	l.stop(&EndError{Code: Closed}, net.ErrClosed)
	return nil
}

// Abort ends both streams, and tells the other end why.
func (l *Link) Abort(code Code, reason string) {
	e := &EndError{code, reason}
	l.stop(e, e)
}

func (l *Link) stop(tell *EndError, why error) {
	l.mu.Lock()
	ended := l.endLocked(why)
	if !ended && why == net.ErrClosed {
		l.end = why // nothing more is read
		l.incoming.arrived.Send()
	}
	if why == net.ErrClosed {
		l.incoming.items = nil
	}
	l.mu.Unlock()
	if ended {
		l.mux.tellEnd(l.out, tell)
	}
}

// tick finds losses that neither end has noticed. It tells the other end how much was sent, if that has changed. If the window is full or
// nothing was heard since the last tick, it asks the other end: the credit may be lost, or the link may have ended there.
func (l *Link) tick() {
	l.mu.Lock()
	out := &l.outgoing
	ask := !l.incoming.heard || out.room(l.window) == 0
	l.incoming.heard = false
	l.mu.Unlock()
	l.check(ask, ask)
}

// check tells the other end how much was sent, if always is set or that has changed. If ask is set, the other end answers with how much it
// has sent and consumed.
func (l *Link) check(always, ask bool) {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	out := &l.outgoing
	sent, due := out.sent, l.end == nil && (always || out.checked != out.sent)
	out.checked = sent
	l.mu.Unlock()
	if !due {
		return
	}
	var b [1]byte
	if ask {
		b[0] = 1
	}
	_ = l.mux.config.Publish(l.out, appendFrame(nil, frameCheck, sent, b[:])) // if the bus is away, CheckAll follows
}

// Note sends a message beside the stream. The other end gets it between the bytes that are written before and after it.
func (l *Link) Note(text []byte) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	sent, err := l.outgoing.sent, l.writeErrorLocked()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.publish(appendFrame(nil, frameNote, sent, text))
}

// publish publishes a frame of the stream. If that fails, the stream has a gap, so the link ends.
func (l *Link) publish(b []byte) error {
	err := l.mux.config.Publish(l.out, b)
	if err != nil {
		l.Abort(Lost, "the bus does not take messages: "+err.Error())
	}
	return err
}

// Next returns what has arrived: pieces of the stream, or else one note. It waits for the first. The caller calls Consumed when it needs
// the pieces no longer. The error at the end of the stream is io.EOF.
func (l *Link) Next(room [][]byte) (pieces [][]byte, note []byte, err error) {
	for {
		pieces, note, err, wait := l.next(room)
		if !wait {
			return pieces, note, err
		}
		<-l.incoming.arrived
	}
}

// Await waits until something has arrived, and returns nil. If the link ends before that, or ctx does, Await returns why. What has
// arrived stays there for Next and Read.
func (l *Link) Await(ctx context.Context) error {
	for {
		l.mu.Lock()
		there, err := len(l.incoming.items) > 0, l.readErrorLocked()
		l.incoming.passOn(l)
		l.mu.Unlock()
		if there {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-l.incoming.arrived:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *Link) next(pieces [][]byte) (_ [][]byte, note []byte, err error, wait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := &l.incoming
	defer in.passOn(l)
	if in.deadline.passed() {
		in.arrived.Send() // all goroutines that wait have missed it
		return nil, nil, errDeadline, false
	}
	n := 0
	for n < len(in.items) && !in.items[n].note && n < maxPieces {
		pieces = append(pieces, in.items[n].bytes)
		n++
	}
	if n == 0 && len(in.items) > 0 {
		note, n = in.items[0].bytes, 1
		in.notes--
	}
	if n > 0 {
		in.drop(n)
		return pieces, note, nil, false
	}
	err = l.readErrorLocked()
	return nil, nil, err, err == nil
}

// maxPieces is how many pieces Next returns at most.
const maxPieces = 64

// passOn wakes the next goroutine that waits, if there is something for it.
func (in *incoming) passOn(l *Link) {
	if len(in.items) > 0 || in.fin || l.end != nil {
		in.arrived.Send()
	}
}

// drop removes the first n items.
func (in *incoming) drop(n int) {
	rest := copy(in.items, in.items[n:])
	clear(in.items[rest:])
	in.items = in.items[:rest]
	if rest == 0 && cap(in.items) > maxPieces {
		in.items = nil
	}
}

// readErrorLocked is why nothing more arrives; nil if something may.
func (l *Link) readErrorLocked() error {
	switch {
	case l.end != nil:
		return l.end
	case l.incoming.fin:
		return io.EOF
	case l.incoming.deadline.passed():
		return errDeadline
	}
	return nil
}

// Consumed lets the other end send as many bytes more.
func (l *Link) Consumed(n int) { l.grant(n, false) }

// grant counts n more bytes as consumed. It tells the other end how many were, if always is set or enough has changed.
func (l *Link) grant(n int, always bool) {
	l.mu.Lock()
	in := &l.incoming
	in.consumed += uint64(n)
	consumed := in.consumed
	due := l.end == nil && !in.fin && (always || consumed-in.granted >= l.window/4)
	if due {
		in.granted = consumed
	}
	l.mu.Unlock()
	if !due {
		return
	}
	if err := l.mux.config.Publish(l.out, appendFrame(nil, frameAck, consumed, nil)); err != nil {
		l.Abort(Lost, "the bus does not take messages: "+err.Error())
	}
}
