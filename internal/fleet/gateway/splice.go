package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/websocket"
)

const (
	// upSize is the buffer for a client that sends much.
	upSize = 64 << 10

	// lingerTime is how long one direction may stay open after the other has ended.
	lingerTime = 5 * time.Second

	// boundaryTime is how long a gateway that stops waits for a client that does not read, and how long for the end of a frame, so that it can
	// send a close frame.
	boundaryTime = time.Second
)

// splice passes bytes on in both directions until the connection of the client and the link have ended.
func (c *client) splice(ctx context.Context) {
	var up sync.WaitGroup
	up.Go(c.passUp)
	// A client that does not read must not keep a link that has ended.
	written := make(chan struct{})
	var guard sync.WaitGroup
	guard.Go(func() {
		select {
		case <-c.link.Done():
			c.conn.SetWriteDeadline(time.Now().Add(lingerTime))
		case <-written:
		}
	})
	stop := context.AfterFunc(ctx, func() {
		c.conn.SetWriteDeadline(time.Now().Add(boundaryTime)) // before passDown sets another one
		c.link.SetReadDeadline(time.Unix(1, 0))
	})
	why := c.passDown(ctx)
	close(written)
	guard.Wait()
	stop()
	switch e, told := errors.AsType[*rpc.CloseError](why); {
	case told && c.frames.between():
		c.link.Close()
		c.part(e)
	case errors.Is(why, io.EOF):
		c.linger(&up)
	}
	c.conn.Close()
	c.link.Close()
	up.Wait()
}

// linger gives the client time to close its end, after the host has closed its own. up passes on what the client sends until then: bytes that
// are not read when the connection is closed would be answered with a reset, which could overtake the last bytes for the client.
func (c *client) linger(up *sync.WaitGroup) {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	select {
	case <-c.link.Done(): // the host waits for nothing more
	case <-time.After(lingerTime):
	}
	c.conn.SetReadDeadline(time.Now().Add(partingTime))
	up.Wait()
}

// passUp passes on what the client sends, until its connection ends. What comes after the end of the link is dropped. When the client has ended
// its stream, the host has lingerTime to end the link.
func (c *client) passUp() {
	in := c.stream.Reader()
	err := copyUp(c.link.Link, in, &c.gateway.counts)
	select {
	case <-c.link.Done():
		_, _ = io.Copy(io.Discard, in)
		return // passDown may still have bytes of the host
	default:
	}
	if errors.Is(err, io.EOF) {
		_ = c.link.CloseWrite() // an error ends the link
		select {
		case <-c.link.Done():
		case <-time.After(lingerTime):
		}
	}
	c.link.Close()
}

var upBuffers = sync.Pool{New: func() any { return new([upSize]byte) }}

// copyUp copies from a client to a link. A client that sends little needs no buffer beside that of its reader.
func copyUp(l *link.Link, in *bufio.Reader, n *counters) error {
	for {
		if _, err := in.Peek(1); err != nil {
			return err
		}
		b, _ := in.Peek(in.Buffered()) // cannot fail: the bytes are there
		if _, err := l.Write(b); err != nil {
			return err
		}
		n.up.Add(uint64(len(b)))
		much := len(b) == in.Size()
		if _, err := in.Discard(len(b)); err != nil {
			return err
		}
		for much {
			var err error
			if much, err = copyMuch(l, in, n); err != nil {
				return err
			}
		}
	}
}

// copyMuch copies once with a large buffer, and reports whether that was worth it. Nothing is buffered in the reader.
func copyMuch(l *link.Link, in *bufio.Reader, n *counters) (more bool, err error) {
	buffer := upBuffers.Get().(*[upSize]byte)
	defer upBuffers.Put(buffer)
	size, err := in.Read(buffer[:])
	if size > 0 {
		if _, err := l.Write(buffer[:size]); err != nil {
			return false, err
		}
		n.up.Add(uint64(size))
	}
	return size > in.Size(), err
}

// passDown passes on what the host sends, until the link or the connection of the client ends, and returns why. The client is told a
// *rpc.CloseError, if it has got whole frames.
func (c *client) passDown(ctx context.Context) error {
	room := make([][]byte, 0, 4)
	for {
		pieces, note, err := c.link.Next(room[:0])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return c.finishFrame()
		case err != nil:
			return err
		case note != nil:
			if err := c.attached(ctx, note); err != nil {
				c.log.Info("a session is not served", "err", err)
				return &rpc.CloseError{Code: rpc.CloseTryAgain, Reason: err.Error()}
			}
			continue
		}
		if err := c.write(pieces); err != nil {
			return err
		}
	}
}

// write writes pieces of the stream to the client.
func (c *client) write(pieces [][]byte) error {
	for _, p := range pieces {
		c.frames.pass(p)
	}
	buffers := net.Buffers(pieces)
	n, err := buffers.WriteTo(c.conn)
	c.gateway.counts.down.Add(uint64(n))
	c.link.Consumed(int(n))
	return err
}

// finishFrame passes on the rest of a frame, so that a close frame can follow.
func (c *client) finishFrame() error {
	deadline := time.Now().Add(boundaryTime)
	c.link.SetReadDeadline(deadline)
	c.conn.SetWriteDeadline(deadline)
	for !c.frames.between() {
		pieces, _, err := c.link.Next(nil)
		if err != nil {
			return err
		}
		for _, p := range pieces {
			if _, err := c.conn.Write(p[:c.frames.finish(p)]); err != nil {
				return err
			}
		}
	}
	return errStopping
}

// A boundary knows where the frames of a stream end. Its zero value is before the first one.
type boundary struct {
	header []byte // the part of a header that has passed
	left   int64  // bytes of the payload that have not passed
}

// between reports whether the stream is between two frames.
func (b *boundary) between() bool { return len(b.header) == 0 && b.left == 0 }

// pass takes the next bytes of the stream.
func (b *boundary) pass(p []byte) {
	for len(p) > 0 {
		p = p[b.step(p):]
	}
}

// finish takes the next bytes up to the end of the present frame, and returns how many these are.
func (b *boundary) finish(p []byte) (n int) {
	for n < len(p) && !b.between() {
		n += b.step(p[n:])
	}
	return n
}

// step takes some of the next bytes, none of them from the frame after the present one, and returns how many. p is not empty.
func (b *boundary) step(p []byte) int {
	if b.left > 0 {
		n := min(b.left, int64(len(p)))
		b.left -= n
		return int(n)
	}
	size := 2
	if len(b.header) >= 2 {
		size = websocket.SizeFrom(b.header[1])
	}
	n := min(size-len(b.header), len(p))
	b.header = append(b.header, p[:n]...)
	if len(b.header) >= 2 && len(b.header) == websocket.SizeFrom(b.header[1]) {
		if h, err := websocket.Parse(b.header); err == nil {
			b.left = h.Length
		}
		b.header = b.header[:0]
	}
	return n
}
