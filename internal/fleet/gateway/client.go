package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/websocket"
	"github.com/tetherexec/tether/wire"
)

const (
	// maxHosts is how many hosts are tried for a new session.
	maxHosts = 3

	// partingTime is how long a client may take to close its connection after it was told why.
	partingTime = 2 * time.Second
)

// A client is one connection of a client.
type client struct {
	gateway *Gateway
	from    listen.Client
	stream  *rpc.WebSocket
	conn    net.Conn
	log     *slog.Logger

	link   hostLink
	record *record // of its session; nil: not known yet. The lock of the gateway guards it, once there is a link
	frames boundary

	attachedOnce bool // the host has given the session to this connection; the lock of the gateway guards it, once there is a link
}

// A hostLink is a link to a host.
type hostLink struct {
	*link.Link
	to fleet.LinkSubject
}

// serve serves one client until its connection ends. When the gateway stops, ctx ends.
func (g *Gateway) serve(ctx context.Context, stream *rpc.WebSocket, from listen.Client) {
	c := &client{gateway: g, from: from, stream: stream, conn: stream.Conn(), log: g.log.With("peer", from.Peer)}
	defer c.conn.Close()
	err := errAnswered
	for err == errAnswered {
		err = c.begin(ctx)
	}
	if err != nil {
		return
	}
	c.splice(ctx)
	g.forget(c)
	g.detach(c)
}

// errAnswered means that the client was answered that its session is not known, and may ask for another one.
var errAnswered = errors.New("the session is not known")

// begin reads the first message of a client, and connects it to its host. If it returns another error than errAnswered, the client was told
// why, and has to leave.
func (c *client) begin(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.conn.SetReadDeadline(time.Unix(1, 0)) })
	h, err := readHello(c.stream.Reader(), c.control)
	stop()
	if err == nil {
		err = c.connectPresent(ctx, h)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		c.part(errStopping)
	case errors.Is(err, errLeft):
	case errors.Is(err, directory.ErrNoSession):
		c.log.Info("a client resumes a session that the fleet does not know")
		if err = c.answer(h, unknownSession(h.resume)); err == nil {
			err = errAnswered
		}
	default:
		c.refuse(h, err)
	}
	return err
}

// unknownSession is how a server answers that it does not know a session.
func unknownSession(id string) error {
	return wire.Errorf(wire.CodeInvalidRequest, "unknown session id %s", id)
}

// answer answers the first message of a client with an error.
func (c *client) answer(h hello, why error) error {
	e, ok := errors.AsType[*wire.Error](why)
	if !ok {
		e = wire.Errorf(wire.CodeInvalidRequest, "%v", why)
	}
	c.conn.SetWriteDeadline(time.Now().Add(partingTime))
	defer c.conn.SetWriteDeadline(time.Time{})
	_, err := c.conn.Write(websocket.AppendFrame(nil, websocket.Text, true, false, wire.AppendError(nil, h.id, e)))
	return err
}

// control answers a control frame before the first message, as a server does. Later ones are for the host.
func (c *client) control(op websocket.Op, payload []byte) error {
	var answer []byte
	switch op {
	case websocket.Ping:
		answer = websocket.AppendFrame(nil, websocket.Pong, true, false, payload)
	case websocket.Close:
		answer = websocket.AppendFrame(nil, websocket.Close, true, false, payload[:min(len(payload), 2)]) // its code
	default:
		return nil
	}
	c.conn.SetWriteDeadline(time.Now().Add(partingTime))
	_, err := c.conn.Write(answer)
	c.conn.SetWriteDeadline(time.Time{})
	return err
}

// connectPresent is connect, until the client leaves. A client that has left may have resumed its session through another gateway, which a
// late link would take the session away from; and a host may never answer.
func (c *client) connectPresent(ctx context.Context, h hello) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() { // ends with the connection, or with the deadline below
		if awaitEnd(c.stream.Reader()) {
			cancel(errLeft)
		}
	})
	err := c.connect(ctx, h)
	c.conn.SetReadDeadline(time.Unix(1, 0))
	watching.Wait()
	c.conn.SetReadDeadline(time.Time{})
	if err != nil && context.Cause(ctx) == errLeft {
		return errLeft
	}
	return err
}

// awaitEnd waits until a client has left, and reports true. It reports false if a deadline has passed, or the client has sent more
// than the buffer holds.
func awaitEnd(in *bufio.Reader) bool {
	for {
		_, err := in.Peek(in.Buffered() + 1)
		if err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, bufio.ErrBufferFull)
		}
	}
}

// connect opens a link to the host of the client. For a new session other hosts are tried if one is gone: none has done anything yet.
func (c *client) connect(ctx context.Context, h hello) (err error) {
	g := c.gateway
	for range maxHosts {
		var r route
		if r, err = g.route(ctx, h, c.from); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.record = r.record
		if err = c.open(ctx, r, h); err == nil {
			return nil
		}
		c.log.Info("a host does not serve a client", "host", r.host.Name, "err", err)
		if r.record != nil || !hasNotBegun(err) {
			break
		}
	}
	return &directory.Unavailable{Reason: err.Error()}
}

// hasNotBegun reports whether a link has ended before the host has read anything.
func hasNotBegun(err error) bool {
	e, ok := errors.AsType[*link.EndError](err)
	return ok && (e.Code == link.Absent || e.Code == link.Refused)
}

// open opens a link to a host, and sends what the client has sent. If that is the request that opens or resumes a session, the host has
// answered when open returns.
func (c *client) open(ctx context.Context, r route, h hello) error {
	g := c.gateway
	o := fleet.Open{Principal: c.from.Principal, ReadOnly: c.from.ReadOnly, Admin: c.from.Admin, Peer: c.from.Peer, Window: g.config.Window}
	if r.record != nil {
		o.Session, o.Epoch = r.record.key, r.record.session.Epoch
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	to := fleet.LinkSubject{Host: r.host.Name, Process: r.host.Process, Gateway: g.id, Link: fleet.NewID(), Up: true}
	l, err := g.mux.Open(to, g.config.Window, text, func(subject string, frame []byte) error {
		// NATS answers to the reply subject if the host is not connected.
		return g.config.Bus.PublishMsg(&nats.Msg{Subject: subject, Reply: to.Back().String(), Data: frame})
	})
	if err != nil {
		return err
	}
	c.link = hostLink{l, to}
	g.remember(c)
	if _, err = l.Write(h.raw); err == nil && h.init {
		err = l.Await(ctx)
	}
	if err == nil {
		return nil
	}
	l.Close()
	g.forget(c)
	if e, ok := errors.AsType[*link.EndError](err); ok && e.Code == link.Absent {
		g.hosts.MarkGone(r.host.Name)
	}
	return err
}

// refuse tells a client why it gets no host. initialize is answered with an error if another attempt would not help.
func (c *client) refuse(h hello, why error) {
	c.gateway.counts.refused.Add(1)
	c.log.Info("a client gets no host", "err", why)
	if h.init && !isTemporary(why) && c.answer(h, why) != nil {
		return
	}
	c.part(&rpc.CloseError{Code: rpc.CloseTryAgain, Reason: why.Error()})
}

// part ends the connection with a close frame. It is called between two frames.
func (c *client) part(why *rpc.CloseError) {
	deadline := time.Now().Add(partingTime)
	c.conn.SetDeadline(deadline)
	if _, err := c.conn.Write(websocket.AppendFrame(nil, websocket.Close, true, false, rpc.ClosePayload(why))); err != nil {
		return
	}
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		c.stream.Drain()
	}
}

// attached records the session that the host tells of beside the stream.
func (c *client) attached(ctx context.Context, note []byte) error {
	a, err := fleet.DecodeAttached(note)
	if err != nil {
		return fmt.Errorf("host %s has sent a note that cannot be read: %w", c.link.to.Host, err)
	}
	err = c.gateway.attach(ctx, c, a)
	if err != nil {
		return fmt.Errorf("the session cannot be recorded: %w", err)
	}
	return nil
}
