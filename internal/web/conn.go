package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"sync"
	"syscall"
	"time"
)

// writeGrace is how long a connection whose answer is complete waits for the
// end of its request before it is given up instead of pooled.
const writeGrace = 50 * time.Millisecond

// A conn is a connection to a target or a proxy. It has one owner at a time:
// an exchange, or the pool.
type conn struct {
	socket net.Conn // closed to end everything at once; TLS would first say goodbye
	stream net.Conn // what is read and written
	reader *bufio.Reader
	route  route

	reused bool          // has carried an exchange before
	since  time.Time     // when it became idle
	waited time.Duration // how long it was idle before it was taken
	idle   chan struct{} // closed when the pool's watch over it has ended
	idled  error         // what ended the watch
}

func (c *conn) close() { c.socket.Close() }

// An exchange is a request and its answer on a connection. It ends once, by
// end.
type exchange struct {
	client *Client
	conn   *conn
	stop   func() bool // lifts the context's hold on the connection
	once   sync.Once

	written chan error // the writer's result
}

// A failure is what became of a request that got no answer.
type failure struct {
	error
	unseen bool // the server cannot have read a byte of it
}

func (f *failure) Unwrap() error { return f.error }

// errCut says that the request's own content-length promised more than its body.
var errCut = errors.New("request is shorter than its content-length")

// exchange sends a request and reads the head of its answer. The connection is
// the exchange's. The error is a *failure if no byte of an answer came.
func (c *Client) exchange(ctx context.Context, cn *conn, r *request) (*exchange, *head, error) {
	x := &exchange{client: c, conn: cn, written: make(chan error, 1)}
	x.stop = context.AfterFunc(ctx, cn.close)
	head, body, whole := r.encode(&cn.route)
	before, known := acked(cn.socket)
	// The writer ends with the request or with the connection, and end waits
	// for it. It does not hold up the answer: a server may refuse early.
	if !c.spawn(func() {
		buffers := net.Buffers{head, body}
		_, err := buffers.WriteTo(cn.stream)
		if err == nil && !whole {
			err = errCut
		}
		x.written <- err
	}) {
		x.written <- ErrClosed
		x.end(false)
		return nil, nil, ErrClosed
	}
	if _, err := cn.reader.Peek(1); err != nil {
		unseen := known && hasEnded(err) && unchanged(cn.socket, before)
		x.end(false)
		return nil, nil, &failure{err, unseen}
	}
	h, err := readHead(cn.reader)
	if err != nil {
		x.end(false)
		return nil, nil, err
	}
	return x, h, nil
}

// hasEnded tells whether a read failed because the peer has ended its side of the
// connection. A reset is not an end, unless it came after one.
func hasEnded(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) }

// unchanged tells whether the peer's system has confirmed nothing since before.
//
// If the peer's end of the connection is here, that means that it had been sent
// when the request had not yet arrived, because the end confirms everything that
// came before it. A server that has said its last word reads no more requests.
func unchanged(c net.Conn, before uint64) bool {
	now, ok := acked(c)
	return ok && now == before
}

// end gives the connection back to the pool if it is fit for another
// exchange, else it closes it.
func (x *exchange) end(fit bool) {
	x.once.Do(func() {
		if !fit {
			x.conn.close()
			x.stop()
			<-x.written
			return
		}
		grace := time.NewTimer(writeGrace)
		defer grace.Stop()
		select {
		case err := <-x.written:
			if x.stop() && err == nil {
				x.client.pool.put(x.conn)
				return
			}
			x.conn.close()
		case <-grace.C:
			x.conn.close()
			x.stop()
			<-x.written
		}
	})
}

// A body is the body of an answer. Its errors are *Error, whatever broke it.
type body struct {
	exchange *exchange
	framed   io.Reader
	reusable bool               // the connection outlives the body
	length   int64              // negative: not known
	cancel   context.CancelFunc // of the request's context

	ended error // what Read returns from now on
}

// newBody frames the body of an answer to r.
func newBody(x *exchange, h *head, r *request, cancel context.CancelFunc) (*body, error) {
	b := &body{exchange: x, reusable: h.keepAlive(&r.header), cancel: cancel, length: -1}
	reader := x.conn.reader
	codings := h.header.values("transfer-encoding")
	given := h.header.values("content-length")
	length, ok := contentLength(given)
	switch {
	case r.method == "CONNECT" && h.status/100 == 2, h.status == 101: // no longer HTTP
		b.framed, b.reusable = noBody{}, false
	case r.method == "HEAD", h.status == 204, h.status == 304:
		b.framed, b.length = noBody{}, 0
	case codings != nil && h.old:
		return nil, fmt.Errorf("%w: transfer-encoding in HTTP/1.0", errHead)
	case codings != nil && endsInChunked(codings[len(codings)-1]):
		b.framed = &chunkedReader{reader, httputil.NewChunkedReader(reader)}
		b.reusable = b.reusable && given == nil // two lengths: somebody on the way may see another end
	case codings != nil:
		b.framed, b.reusable = reader, false
	case given != nil && !ok:
		return nil, fmt.Errorf("%w: bad content-length", errHead)
	case given != nil:
		b.framed, b.length = &fixedReader{reader, length}, length
	default:
		b.framed, b.reusable = reader, false
	}
	return b, nil
}

func (b *body) Read(p []byte) (int, error) {
	if b.ended != nil {
		return 0, b.ended
	}
	n, err := b.framed.Read(p)
	switch {
	case err == io.EOF:
		b.ended = io.EOF
		b.exchange.end(b.reusable)
		b.cancel()
	case err != nil:
		b.ended = badBody(bodyFailure, err)
		b.exchange.end(false)
		b.cancel()
	}
	if n > 0 {
		return n, nil // the end is told by the next call
	}
	return n, b.ended
}

// Close ends the exchange, also one that Read waits for. A body that was not
// read to its end costs the connection.
func (b *body) Close() error {
	b.exchange.end(false)
	b.cancel()
	return nil
}

// skip drops the body of an answer that nobody asked for, without waiting for
// more of it, so that the next hop of a redirect can use the connection.
func (b *body) skip() {
	rest := b.length
	if rest >= 0 && rest <= int64(b.exchange.conn.reader.Buffered()) {
		b.exchange.conn.reader.Discard(int(rest))
		b.exchange.end(b.reusable)
	}
	b.Close()
}

// noBody is the body of an answer that has none.
type noBody struct{}

func (noBody) Read([]byte) (int, error) { return 0, io.EOF }

// A fixedReader reads exactly left bytes.
type fixedReader struct {
	r    io.Reader
	left int64
}

func (f *fixedReader) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n, err := f.r.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if f.left == 0 {
		err = nil
	}
	return n, err
}

// A chunkedReader reads chunks and the trailer after them, which it drops.
type chunkedReader struct {
	r      *bufio.Reader
	chunks io.Reader
}

func (c *chunkedReader) Read(p []byte) (int, error) {
	n, err := c.chunks.Read(p)
	if err == io.EOF {
		var trailer headers
		lines := lineReader{r: c.r, left: maxHeadBytes}
		if err := lines.fields(&trailer); err != nil {
			return n, err
		}
	}
	return n, err
}
