package cable

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Stranded says how a connection behaves that the client has lost and the server
// has not.
type Stranded int32

// The behaviours of a stranded connection.
const (
	// Silent is a path that has died: nothing comes back any more.
	Silent Stranded = iota + 1
	// AnswersPings is a peer that seems alive.
	AnswersPings
)

// A link is one connection through the cable.
type link struct {
	c       *Cable
	near    net.Conn
	number  int      // from 1; set under c.mu when it has reached the target
	lines   [2]*line // by direction; set before number
	asked   pending
	severed chan struct{} // closed by sever
	upgrade chan struct{} // closed when the target has answered
	speaks  atomic.Bool   // WebSocket
	left    atomic.Int32  // a Stranded; 0: not stranded

	mu    sync.Mutex
	cause string   // why it was severed
	far   net.Conn // nil until the target was reached
}

// sever ends both sides; bytes that the kernel has already accepted may still
// arrive.
func (l *link) sever(cause string, reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(l.severed) {
		return
	}
	l.cause = cause
	close(l.severed)
	closeConn(l.near, reset)
	if l.far != nil {
		closeConn(l.far, reset)
	}
}

// closeConn closes a connection, with a reset if that is requested and possible. It
// sends no TLS close message: a cut cable could not either.
func closeConn(conn net.Conn, reset bool) {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0)
	}
	conn.Close()
}

func (l *link) isSevered() bool   { return isClosed(l.severed) }
func (l *link) isWebSocket() bool { return isClosed(l.upgrade) && l.speaks.Load() }

// joined reports whether the link has reached the target.
func (l *link) joined() bool {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.number > 0
}

// sleep waits. It reports false if the link was severed.
func (l *link) sleep(d time.Duration) bool {
	if d <= 0 {
		return !l.isSevered()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.severed:
		return false
	}
}

// strand ends the link for the client only.
func (l *link) strand(as Stranded) {
	if l.left.CompareAndSwap(0, int32(as)) {
		l.c.notice(WasStranded, l.number, "")
		l.near.Close()
	}
}

// Strand ends every connection for the client only. The server does not notice: its
// messages are swallowed. New connections pass. The returned function ends the
// stranded connections; Cut, Sever and Close do too.
func (c *Cable) Strand(as Stranded) (end func()) {
	var stranded []*link
	for _, l := range c.all() {
		if l.joined() {
			l.strand(as)
			stranded = append(stranded, l)
		}
	}
	return func() {
		for _, l := range stranded {
			l.sever("stranded", false)
		}
	}
}

// serve forwards one accepted connection until it ends.
func (c *Cable) serve(near net.Conn) {
	l := &link{c: c, near: near, severed: make(chan struct{}), upgrade: make(chan struct{})}
	if why := c.admit(l); why != "" {
		c.refuse(l, why)
		return
	}
	defer c.forget(l)
	in := bufio.NewReaderSize(near, pieceSize)
	head, err := readHead(in)
	if err != nil {
		return // without a request there is no link
	}
	if r := c.judgeUpgrade(); r != nil {
		c.count(func(s *Stats) { s.Refused++ })
		c.notice(Refused, 0, r.upgrade.String())
		r.upgrade.fail(l, in, func() { r.acted(Message{Time: time.Now(), From: FromClient, Raw: head}) })
		return
	}
	c.mu.Lock()
	target := c.target
	c.mu.Unlock()
	far, err := target.dial(c.ctx, c.cfg.TLS)
	if err != nil {
		c.refuse(l, "the target does not answer: "+err.Error())
		return
	}
	up := newLine(l, FromClient, in, far)
	down := newLine(l, FromServer, bufio.NewReaderSize(far, pieceSize), near)
	if !c.join(l, far, up, down) {
		c.refuse(l, "the cable was cut")
		return
	}
	c.notice(Opened, l.number, "")
	up.push(item{raw: target.rewrite(head)})
	var pumps sync.WaitGroup // they end with their stream, or when the link is severed
	pumps.Go(func() { up.finish(l.readRequests(up, asksSwitch(head))) })
	pumps.Go(func() { down.finish(l.readAnswers(down)) })
	pumps.Go(up.write)
	pumps.Go(down.write)
	pumps.Wait()
	l.sever("closed by both ends", false)
	c.notice(Ended, l.number, l.cause)
}

// admit registers a connection, so that it can be severed; otherwise it returns the
// reason.
func (c *Cable) admit(l *link) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx.Err() != nil:
		return "the cable was removed"
	case c.refusing:
		return "the cable is cut"
	case len(c.links) >= maxLinks:
		return "too many connections"
	}
	c.links[l] = struct{}{}
	return ""
}

// join sets the connection to the target. It reports false if the link was severed
// meanwhile.
func (c *Cable) join(l *link, far net.Conn, up, down *line) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(l.severed) {
		far.Close()
		return false
	}
	l.far, l.lines = far, [2]*line{up, down}
	c.stats.Links++
	l.number = c.stats.Links
	c.changedLocked()
	return true
}

func (c *Cable) forget(l *link) {
	l.sever("closed", false)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.links, l)
	c.changedLocked()
}

// refuse ends a connection with a reset, so that the client sees a refusal and not
// an orderly end.
func (c *Cable) refuse(l *link, why string) {
	c.count(func(s *Stats) { s.Refused++ })
	c.notice(Refused, 0, why)
	l.sever(why, true)
}

func (c *Cable) count(f func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.stats)
}

// readRequests reads the client's bytes after the head of its opening request. Unless that asks for an upgrade, they are its body, without
// which the target does not answer.
func (l *link) readRequests(up *line, asked bool) error {
	if _, err := up.in.Peek(1); err != nil {
		return err // the client left before the answer
	}
	if !asked {
		return l.read(up)
	}
	select {
	case <-l.upgrade:
	case <-l.severed:
		return net.ErrClosed
	}
	return l.read(up)
}

// readAnswers reads the target's bytes.
func (l *link) readAnswers(down *line) error {
	head, err := readHead(down.in)
	l.speaks.Store(err == nil && isSwitch(head))
	// As soon as the client can have seen the answer, messages can be injected
	// after it.
	if !down.push(item{raw: head, mark: func() { close(l.upgrade) }}) {
		return net.ErrClosed
	}
	if err != nil && !errors.Is(err, errHead) {
		return err
	}
	return l.read(down)
}

// read reads messages, or bytes if the connection is not a WebSocket.
func (l *link) read(from *line) error {
	frames := frameReader{in: from.in, limit: maxMessage, emit: from.push}
	if l.speaks.Load() {
		return frames.run()
	}
	return frames.bytes(-1)
}

// finish ends a direction whose sender has ended.
func (l *line) finish(err error) {
	switch {
	case l.link.left.Load() != 0 && l.from == FromClient:
		// The client was cut off; the server must not notice.
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil:
		l.push(item{kind: end})
	default: // a reset does not overtake earlier bytes
		l.push(item{kind: end, lost: err})
	}
}
