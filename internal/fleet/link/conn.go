package link

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/wake"
)

var errDeadline error = os.ErrDeadlineExceeded

// A deadline is the time after which a wait fails. The lock of the link guards it.
type deadline struct {
	at    time.Time // zero: none
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// set sets the deadline, and lets the waiting goroutine look at it now and when it has passed.
func (d *deadline) set(at time.Time, waiting wake.Signal) {
	d.stop()
	d.at = at
	if !at.IsZero() {
		d.timer = time.AfterFunc(time.Until(at), waiting.Send)
	}
	waiting.Send()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// Read implements net.Conn. Notes are skipped.
func (l *Link) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := l.read(p)
		if n > 0 || err != nil {
			l.Consumed(n)
			return n, err
		}
		<-l.incoming.arrived
	}
}

// read copies what has arrived. Without an error, 0 bytes mean that the caller has to wait.
func (l *Link) read(p []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := &l.incoming
	defer in.passOn(l)
	if in.deadline.passed() {
		in.arrived.Send() // all goroutines that wait have missed it
		return 0, errDeadline
	}
	done := 0 // items that were read to their end
	for done < len(in.items) && n < len(p) {
		first := &in.items[done]
		if first.note {
			in.notes--
			done++
			continue
		}
		c := copy(p[n:], first.bytes)
		n += c
		if first.bytes = first.bytes[c:]; len(first.bytes) > 0 {
			break
		}
		done++
	}
	in.drop(done)
	if n > 0 {
		return n, nil
	}
	return 0, l.readErrorLocked()
}

// Write implements net.Conn.
func (l *Link) Write(b []byte) (n int, err error) {
	for {
		c, err := l.TryWrite(b[n:])
		n += c
		if err != nil || n == len(b) {
			return n, err
		}
		if err := l.awaitCredit(); err != nil {
			return n, err
		}
	}
}

// awaitCredit waits until something may be written.
func (l *Link) awaitCredit() error {
	for {
		l.mu.Lock()
		out := &l.outgoing
		ready := l.end != nil || out.fin || out.room(l.window) > 0
		late := out.deadline.passed()
		if ready || late {
			out.credit.Send() // another goroutine may wait, too
		}
		l.mu.Unlock()
		switch {
		case ready:
			return nil
		case late:
			return errDeadline
		}
		<-out.credit
	}
}

// frames has buffers for frames of data.
var frames = sync.Pool{New: func() any { return new([headerSize + maxData]byte) }}

// TryWrite writes as much as the window allows now.
func (l *Link) TryWrite(b []byte) (n int, err error) {
	l.sending.Lock()
	defer l.sending.Unlock()
	most := l.mux.maxData()
	for n < len(b) {
		l.mu.Lock()
		if err := l.writeErrorLocked(); err != nil {
			l.mu.Unlock()
			return n, err
		}
		out := &l.outgoing
		at := out.sent
		size := min(len(b)-n, out.room(l.window), most)
		out.sent += uint64(size)
		l.mu.Unlock()
		if size == 0 {
			return n, nil
		}
		buffer := frames.Get().(*[headerSize + maxData]byte)
		err := l.publish(appendFrame(buffer[:0], frameData, at, b[n:n+size]))
		frames.Put(buffer)
		if err != nil {
			return n, err
		}
		n += size
	}
	return n, nil
}

// writeErrorLocked is why nothing can be written; nil if something can.
func (l *Link) writeErrorLocked() error {
	switch {
	case l.end == io.EOF, l.outgoing.fin:
		return net.ErrClosed
	case l.end == nil && l.outgoing.deadline.passed():
		return errDeadline
	}
	return l.end
}

// CloseWrite ends the outgoing stream.
func (l *Link) CloseWrite() error {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	if l.end != nil || l.outgoing.fin {
		l.mu.Unlock()
		return nil
	}
	l.outgoing.fin = true
	sent := l.outgoing.sent
	l.outgoing.credit.Send()
	l.mu.Unlock()
	err := l.publish(appendFrame(nil, frameFin, sent, nil))
	l.mu.Lock()
	l.forgetIfOverLocked()
	l.mu.Unlock()
	return err
}

// Acknowledged counts the bytes that the other end has consumed, and reports whether others are on the way. It lags behind by
// up to a quarter of the window.
func (l *Link) Acknowledged() (bytes uint64, waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := &l.outgoing
	return out.acked, out.sent-out.acked > l.window/4
}

// SetReadDeadline implements net.Conn.
func (l *Link) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.incoming.deadline.set(t, l.incoming.arrived)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (l *Link) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outgoing.deadline.set(t, l.outgoing.credit)
	return nil
}

// SetDeadline implements net.Conn.
func (l *Link) SetDeadline(t time.Time) error {
	return errors.Join(l.SetReadDeadline(t), l.SetWriteDeadline(t))
}

// LocalAddr implements net.Conn.
func (l *Link) LocalAddr() net.Addr { return address(l.in) }

// RemoteAddr implements net.Conn.
func (l *Link) RemoteAddr() net.Addr { return address(l.out) }

// An address is a subject.
type address string

func (a address) Network() string { return "link" }
func (a address) String() string  { return string(a) }
