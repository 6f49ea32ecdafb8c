package ports

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/segmentio/asm/base64"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// Window is how many bytes in each direction an end keeps: those that are not acknowledged, and those that the socket has not taken. MinWindow is what
// each connection gets when many have the full window.
const (
	Window    = 1 << 20
	MinWindow = 2 * wire.PortAckEvery
)

// A side has the notifications that an end sends.
type side struct{ data, ack, failed string }

var (
	atServer = side{wire.NotePortData, wire.NotePortAcked, wire.NotePortFailed}
	atClient = side{wire.NotePortWrite, wire.NotePortAck, ""} // a client closes the connection instead
)

// A Pipe is one end of a forwarded connection.
type Pipe struct {
	ID     string
	side   side
	conn   net.Conn
	window uint64

	done chan struct{} // closed when nothing is left to do with the socket, see Done

	mu       sync.Mutex
	freed    sync.Cond // there is room to read the socket again, or the pipe was stopped
	arrived  sync.Cond // there are bytes for the socket, or their end, or the pipe was stopped
	out      outgoing
	in       incoming
	link     *link // the connection on which the pipe sends; nil: none yet
	open     int   // directions of the socket that have not ended
	writes   bool  // one of them is that to the socket
	err      error // why the socket has failed
	told     bool  // the other end was sent err
	otherErr error // why the socket of the other end has failed
	stopped  bool  // the socket was closed
	finished bool  // done is closed
}

// NewClientPipe returns the client's end for a connection that it has accepted. If conn is nil, Use has to set one before Run; until then, the pipe keeps what the
// other end sends.
func NewClientPipe(id string, conn net.Conn) *Pipe { return newPipe(id, atClient, conn, Window) }

func newPipe(id string, at side, conn net.Conn, window uint64) *Pipe {
	p := &Pipe{ID: id, side: at, conn: conn, window: window, done: make(chan struct{}), open: 2, writes: true}
	p.freed.L, p.arrived.L = &p.mu, &p.mu
	p.in.window = window
	return p
}

// Use sets the socket. If the pipe was stopped, it closes the socket and reports false.
func (p *Pipe) Use(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		conn.Close()
		return false
	}
	p.conn = conn
	return true
}

// Peer is the address of the program at the other end of the socket.
func (p *Pipe) Peer() string { return p.conn.RemoteAddr().String() }

// State is what the other end needs to know to continue: it has to send the bytes from received on, before limit.
func (p *Pipe) State() (received, limit uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.in.received, p.in.limit()
}

// Attach lets the pipe send by a feed, and no longer by an earlier one, unless ctx has ended: then another one may be attached. The other end has the bytes
// before received, and takes those before limit. Nothing is sent before start is called.
func (p *Pipe) Attach(ctx context.Context, feed func(rpc.Source) *rpc.Feed, received, limit uint64) (start func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !p.out.continueAt(received, limit) {
		return nil, ErrMissing
	}
	l := &link{pipe: p}
	l.feed = feed(l)
	p.in.force = p.link != nil // what was acknowledged before may be lost
	p.link, p.told = l, false
	return l.feed.Wake, nil
}

// Run reads and writes the socket, which it closes in the end.
func (p *Pipe) Run() {
	var reading sync.WaitGroup
	reading.Go(func() { p.ended(p.read()) })
	err := p.write()
	p.mu.Lock()
	p.writes = false
	p.mu.Unlock()
	p.ended(err)
	reading.Wait()
	p.Stop(p.Err() != nil)
}

// Done is closed when both directions have ended and the other end has handed on everything, or when the pipe has failed or was stopped.
func (p *Pipe) Done() <-chan struct{} { return p.done }

// Err is why the pipe has failed; nil: it has not.
func (p *Pipe) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.err, p.otherErr)
}

// Stop closes the socket, with a reset if that is asked for. It does not wait for Run.
func (p *Pipe) Stop(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopLocked(reset)
	p.finishLocked()
}

func (p *Pipe) stopLocked(reset bool) {
	if p.stopped {
		return
	}
	p.stopped = true
	if tcp, ok := p.conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0)
	}
	if p.conn != nil {
		p.conn.Close() // ends Read and Write
	}
	p.freed.Signal()
	p.arrived.Signal()
}

// finishLocked closes done when it is time.
func (p *Pipe) finishLocked() {
	over := p.open == 0 && (p.err != nil || p.otherErr != nil || p.out.delivered()) || p.stopped && p.open > 0
	if over && !p.finished {
		p.finished = true
		close(p.done)
	}
}

// ended notes the end of a direction of the socket.
func (p *Pipe) ended(err error) {
	p.mu.Lock()
	p.open--
	if !p.stopped {
		p.err = cmp.Or(p.err, err)
	}
	if p.err != nil {
		p.arrived.Signal() // write ends behind the bytes that it has
	}
	p.finishLocked()
	link := p.link
	p.mu.Unlock()
	link.wake()
}

// read reads the socket until it ends.
func (p *Pipe) read() error {
	size := minBlock
	for {
		space := p.space(size)
		if space == nil {
			return net.ErrClosed
		}
		n, err := p.conn.Read(space)
		switch {
		case n == len(space):
			size = min(4*size, maxBlock)
		case n < size/4:
			size = max(size/4, minBlock)
		}
		p.mu.Lock()
		if n > 0 {
			p.out.grow(n)
		}
		// When a write has failed, this end may be all that is left of a reset.
		p.out.ended = p.out.ended || err == io.EOF && p.err == nil
		link := p.link
		p.mu.Unlock()
		link.wake()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// space waits for room, and returns memory for a read; nil: the pipe was stopped.
func (p *Pipe) space(size int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.stopped && p.out.room(p.window) <= 0 {
		p.freed.Wait()
	}
	if p.stopped {
		return nil
	}
	space := p.out.space(size)
	return space[:min(len(space), p.out.room(p.window))]
}

// write hands bytes of the other end to the socket until they end.
func (p *Pipe) write() error {
	for {
		chunk, err := p.chunk()
		if err == io.EOF {
			if half, ok := p.conn.(interface{ CloseWrite() error }); ok {
				half.CloseWrite() // if it fails, the socket has ended, and read finds out why
			}
			return nil
		}
		if err != nil {
			return err
		}
		_, err = p.conn.Write(chunk)
		p.mu.Lock()
		p.in.written += uint64(len(chunk))
		due, link := p.in.ackDue(), p.link
		p.mu.Unlock()
		if err != nil {
			p.discard()
			return err
		}
		if due {
			link.wake()
		}
	}
}

// chunk waits for bytes for the socket. The error is io.EOF at their end.
func (p *Pipe) chunk() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.stopped:
			return nil, net.ErrClosed
		case len(p.in.chunks) > 0:
			chunk := p.in.chunks[0]
			p.in.chunks[0] = nil
			p.in.chunks = p.in.chunks[1:]
			return chunk, nil
		case p.otherErr != nil:
			p.stopLocked(true)
			return nil, p.otherErr
		case p.err != nil:
			return nil, p.err
		case p.in.ended:
			return nil, io.EOF
		}
		p.arrived.Wait()
	}
}

// discard gives up the bytes for a socket that takes no more: read gets what the socket still has.
func (p *Pipe) discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in.chunks, p.in.written = nil, p.in.received
}

// Data takes bytes of the other end. An error means that the other end breaks the rules. The chunk belongs to the pipe.
func (p *Pipe) Data(offset uint64, chunk []byte, end bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.in.take(offset, chunk, end); err != nil {
		return err
	}
	p.arrived.Signal()
	return nil
}

// Ack notes that the other end has handed on the bytes before offset, and takes those before limit. An error means that the other end breaks
// the rules.
func (p *Pipe) Ack(offset, limit uint64) error {
	p.mu.Lock()
	ok := p.out.ack(offset, limit)
	p.freed.Signal()
	p.finishLocked()
	link := p.link
	p.mu.Unlock()
	if !ok {
		return fmt.Errorf("bytes up to %d were not sent", offset)
	}
	if link != nil {
		link.feed.Wake()
	}
	return nil
}

// Failed notes that the other end's socket has failed. The bytes that came before go to the socket of this end, which is reset then.
func (p *Pipe) Failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.otherErr = cmp.Or(p.otherErr, err)
	p.arrived.Signal()
	if !p.writes {
		p.stopLocked(true)
		p.finishLocked()
	}
}

// A link is the connection between client and server on which a pipe sends. It implements rpc.Source.
type link struct {
	pipe *Pipe
	feed *rpc.Feed
}

// wake lets the connection ask for messages. The caller does not hold the lock of the pipe.
func (l *link) wake() {
	if l != nil {
		l.feed.WakeNow()
	}
}

// Written implements rpc.Source.
func (l *link) Written() {}

// Next implements rpc.Source.
func (l *link) Next(b *rpc.Batch) bool {
	p := l.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != l {
		return false
	}
	if p.in.ackDue() {
		p.in.acked, p.in.force = p.in.written, false
		buf := b.Open(wire.PortDataOverhead + len(p.ID))
		b.Seal(wire.AppendPortAck(buf, p.side.ack, p.ID, p.in.written, p.in.limit()))
		return true
	}
	chunk := p.out.next()
	end := p.out.ended && !p.out.toldEnd && p.out.sent+uint64(len(chunk)) == p.out.end
	if len(chunk) > 0 || end {
		buf := b.Open(wire.PortDataOverhead + len(p.ID) + base64.StdEncoding.EncodedLen(len(chunk)))
		b.Seal(wire.AppendPortData(buf, p.side.data, p.ID, p.out.sent, chunk, end))
		p.out.sent += uint64(len(chunk))
		p.out.toldEnd = end
		return true
	}
	if p.err == nil || p.told || p.side.failed == "" || p.open > 0 || p.out.sent < p.out.end {
		return false
	}
	p.told = true
	msg, err := wire.AppendNotification(nil, p.side.failed, wire.PortFailed{ConnectionID: p.ID, Message: p.err.Error()})
	if err != nil {
		return false // a text can be encoded
	}
	b.Whole(msg)
	return true
}
