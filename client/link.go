package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// A Link is one connection of a client, from its handshake to its end. [Client.Through]
// hands it out.
type Link struct {
	conn   *rpc.Conn
	client *Client
	ended  chan struct{} // closed when the connection is gone; then err is set
	err    *lostError

	slots   chan struct{} // calls that wait for answers
	reserve chan struct{} // one more, for clean-up

	// From the answer to initialize.
	session  string
	tether   *wire.TetherInfo // nil: a server without our additions
	features map[string]bool
	info     wire.EnvironmentInfo

	acks acknowledgements

	asked struct { // requests of the server that are being answered
		sync.Mutex
		ids map[int64]bool
	}
}

// connect makes a connection and opens a session on it, or resumes one.
func (c *Client) connect(ctx context.Context, resume string) (*Link, error) {
	dialing, cancel := context.WithTimeoutCause(ctx, c.opts.ConnectTimeout,
		fmt.Errorf("no connection after %s", shortDuration(c.opts.ConnectTimeout)))
	stream, err := c.dialer.dial(dialing)
	if err != nil && ctx.Err() == nil && dialing.Err() != nil {
		err = context.Cause(dialing)
	}
	cancel()
	if err != nil {
		return nil, err
	}
	l := &Link{client: c, ended: make(chan struct{}), features: map[string]bool{},
		slots: make(chan struct{}, maxCalls), reserve: make(chan struct{}, 1)}
	l.asked.ids = map[int64]bool{}
	l.acks.newest = map[string]uint64{}
	l.conn = rpc.New(c.ctx, stream, rpc.Config{Handler: l, Log: c.opts.Log, Client: true, Peek: c.output})
	c.tasks.Go(l.serve)
	if err := l.handshake(ctx, resume); err != nil {
		l.close(err)
		<-l.ended
		return nil, err
	}
	c.tasks.Go(l.watch) // ends with the connection
	return l, nil
}

// serve runs the connection until it ends.
func (l *Link) serve() {
	l.err = &lostError{cause: connectionEnd(l.conn.Serve())}
	close(l.ended)
}

// close ends the connection; the reason of the first call counts.
func (l *Link) close(why error) { l.conn.Close(why) }

// dead reports whether the connection is known to have ended.
func (l *Link) dead() bool {
	select {
	case <-l.conn.Context().Done():
		return true
	default:
		return false
	}
}

func (l *Link) has(feature string) bool { return l.features[feature] }

// initializeResult is the answer to initialize. A reference server sends no Tether, and
// an old one no EnvironmentInfo.
type initializeResult struct {
	SessionID       string                `json:"sessionId"`
	EnvironmentInfo *wire.EnvironmentInfo `json:"environmentInfo"`
	Tether          *wire.TetherInfo      `json:"tether"`
}

func (l *Link) handshake(ctx context.Context, resume string) error {
	limit := l.client.opts.InitializeTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("it accepts connections, but has not answered for %s", shortDuration(limit)))
	defer cancel()
	var got initializeResult
	if err := l.Call(ctx, wire.MethodInitialize, l.client.initializeParams(resume), &got); err != nil {
		return err
	}
	if resume != "" && got.SessionID != resume {
		return protocolError("it has opened another session than the one to be resumed")
	}
	l.session, l.tether = got.SessionID, got.Tether
	if got.EnvironmentInfo != nil {
		l.info = *got.EnvironmentInfo
	}
	if got.Tether != nil {
		for _, f := range got.Tether.Features {
			l.features[f] = true
		}
	}
	return l.notify(wire.MethodInitialized, wire.Empty{})
}

// An urgency says what a call does when all slots are taken.
type urgency uint8

const (
	ordinary urgency = iota // it is refused
	cleanUp                 // it uses the slot that is reserved for such calls
	patient                 // it waits for a slot
)

// enter takes a slot for a call.
func (l *Link) enter(ctx context.Context, u urgency) (leave func(), err error) {
	select {
	case l.slots <- struct{}{}:
		return func() { <-l.slots }, nil
	default:
	}
	switch u {
	case ordinary:
		return nil, ErrTooManyCalls
	case patient:
		select {
		case l.slots <- struct{}{}:
			return func() { <-l.slots }, nil
		case <-l.ended:
			return nil, l.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	select {
	case l.reserve <- struct{}{}:
		return func() { <-l.reserve }, nil
	default:
		// The server has not even answered the last clean-up: replace the connection.
		err := errors.New("the server has stopped answering requests")
		l.close(err)
		return nil, &lostError{cause: err}
	}
}

// A Request was sent on a connection and waits for its answer. Wait has to be called, with
// an ended context if the answer does not matter: until then the request holds a slot.
type Request struct {
	link   *Link
	method string
	call   *rpc.Call
	leave  func()
}

// Begin sends a request. The requests of one goroutine leave in order. If too many requests
// wait for their answers, the error is ErrTooManyCalls.
func (l *Link) Begin(ctx context.Context, method string, params any) (*Request, error) {
	return l.begin(ctx, ordinary, method, params)
}

func (l *Link) begin(ctx context.Context, u urgency, method string, params any) (*Request, error) {
	leave, err := l.enter(ctx, u)
	if err != nil {
		return nil, err
	}
	call, err := l.conn.Begin(ctx, method, params)
	if err != nil {
		leave()
		return nil, err
	}
	return &Request{l, method, call, leave}, nil
}

// outcome is Wait without a context: it returns an answer that has arrived even if the
// client ends at that moment, and otherwise an error that says whether the request was sent.
func (r *Request) outcome(result any) error { return r.Wait(context.Background(), result) }

// Wait returns the answer. If the server refuses, the error is a *ServerError; if the
// connection is lost, it is an error that [Client.Through] understands.
func (r *Request) Wait(ctx context.Context, result any) error {
	defer r.leave()
	raw, err := r.call.Wait(ctx)
	switch e, refused := errors.AsType[*wire.Error](err); {
	case err == nil:
	case refused:
		return serverError(r.method, e)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		<-r.link.ended
		return &lostError{cause: r.link.err.cause, sent: !r.call.NeverSent() && r.link.err.cause != errReplaced}
	}
	if result == nil {
		return nil
	}
	if err := wire.Decode(raw, result); err != nil {
		return protocolError("%v", err)
	}
	return nil
}

// Call sends a request on this connection and waits for the answer.
func (l *Link) Call(ctx context.Context, method string, params, result any) error {
	return l.callAs(ctx, ordinary, method, params, result)
}

// CleanUp is Call for a request that ends something. There is room for it when other
// requests are refused as too many.
func (l *Link) CleanUp(ctx context.Context, method string, params any) error {
	return l.callAs(ctx, cleanUp, method, params, nil)
}

func (l *Link) callAs(ctx context.Context, u urgency, method string, params, result any) error {
	r, err := l.begin(ctx, u, method, params)
	if err != nil {
		return err
	}
	return r.Wait(ctx, result)
}

// sendTimeout bounds the hand-over of a request whose answer does not matter.
const sendTimeout = time.Second

// Tell is CleanUp for a request whose answer does not matter. It waits until the request
// was handed over, and does nothing if the connection has ended.
func (l *Link) Tell(method string, params any) {
	if l.dead() {
		return
	}
	ctx, cancel := context.WithTimeout(l.client.ctx, sendTimeout)
	r, err := l.begin(ctx, cleanUp, method, params)
	cancel()
	if err == nil {
		r.Wait(ctx, nil)
	}
}

// Feed adds a source of messages to the connection: it is asked for them when earlier ones were sent, in turn with other sources, and after requests. It is for
// the packages of this module that send much.
func (l *Link) Feed(src rpc.Source) *rpc.Feed { return l.conn.Feed(src) }

// Context ends with the connection.
func (l *Link) Context() context.Context { return l.conn.Context() }

func (l *Link) notify(method string, params any) error {
	if err := l.conn.Notify(method, params); err != nil {
		return &lostError{cause: err}
	}
	return nil
}
