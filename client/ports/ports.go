package ports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/wire"
)

// MaxOpen is how many connections a session may have open at a time.
const MaxOpen = ports.MaxOpen

const (
	// maxOpening and maxClosing are how many requests wait for their answers. A client has room for more, so that other requests are not refused.
	maxOpening = 512
	maxClosing = 128

	// closeTimeout bounds the end of a connection whose context has ended.
	closeTimeout = time.Second

	// acceptPause is the time between attempts to accept after one has failed, for example because this program has too many open files.
	acceptPause = 100 * time.Millisecond

	// watchTime is how long the server may wait for a change of the list of ports, and watchPause the time between requests for it.
	watchTime  = 30 * time.Second
	watchPause = time.Second
)

// A Target is where connections are forwarded to.
type Target struct {
	Host string // a name or an address, as the executor sees it; empty: the executor's machine, by 127.0.0.1 or ::1
	Port uint16

	// ProcessID names a process that listens on the port in a network of its own, and SessionID its session, by its public id. Without a session, it is that
	// of the client. Host is not used then.
	ProcessID, SessionID string
}

// At returns the target of connections to a listener.
func At(l wire.PortListener) Target {
	to := Target{Port: l.Port}
	if l.Inside {
		to.ProcessID, to.SessionID = l.ProcessID, l.SessionID
	} else if address, err := netip.ParseAddr(l.Address); err == nil && !address.IsUnspecified() {
		to.Host = l.Address
	}
	return to
}

// String returns HOST:PORT.
func (t Target) String() string {
	host := cmp.Or(t.ProcessID, t.Host, "localhost")
	return net.JoinHostPort(host, strconv.Itoa(int(t.Port)))
}

// A Forwarder forwards the connections of one client. It is safe for concurrent use.
type Forwarder struct {
	client *client.Client
	pipes  *pipes
}

// Of returns the Forwarder of a client.
func Of(c *client.Client) *Forwarder {
	return &Forwarder{c, c.Extend(pipesKey{}, func() client.Extension { return newPipes() }).(*pipes)}
}

// pipesKey is the key of the pipes among the extensions of a client.
type pipesKey struct{}

// Serve accepts connections and forwards each to the target, until the context ends or the listener is closed. It closes the listener, and returns
// when all connections have ended. At MaxOpen connections it accepts no further one until one has ended. report, if not nil, is called with the end of each
// connection that has failed; several calls may run at a time.
func (f *Forwarder) Serve(ctx context.Context, l net.Listener, target Target, report func(from net.Addr, err error)) error {
	if report == nil {
		report = func(net.Addr, error) {}
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	var forwarding sync.WaitGroup
	defer forwarding.Wait()
	for {
		if err := f.pipes.open.Take(ctx); err != nil {
			return err
		}
		conn, err := l.Accept()
		if err != nil {
			f.pipes.open.Free()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			report(l.Addr(), err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		forwarding.Go(func() { // ends with the connection or ctx
			defer f.pipes.open.Free()
			if err := f.Forward(ctx, conn, target); err != nil && ctx.Err() == nil {
				report(conn.RemoteAddr(), err)
			}
		})
	}
}

// Listeners are TCP sockets on which processes of the executor wait for connections.
type Listeners struct {
	List    []wire.PortListener
	Partial bool // some may be missing
}

// Listeners returns the listeners of the processes of a session, by its public id, or of all sessions if it is empty.
func (f *Forwarder) Listeners(ctx context.Context, sessionID string) (Listeners, error) {
	if !f.client.Has(client.FeaturePortList) {
		return Listeners{}, fmt.Errorf("a list of ports: %w", client.ErrUnsupported)
	}
	var params wire.PortListParams
	if sessionID != "" {
		params.SessionID = &sessionID
	}
	var r wire.PortListResult
	err := f.client.Call(ctx, client.Idempotent, wire.MethodPortList, params, &r)
	return Listeners{r.Listeners, r.Partial}, err
}

// Watch calls changed with the listeners of the processes of a session, by its public id, or of all sessions if it is empty: at once, and whenever there are
// others. The server looks for them once per second at most. Watch returns when the context ends or the session is lost.
func (f *Forwarder) Watch(ctx context.Context, sessionID string, changed func(Listeners)) error {
	if !f.client.Has(client.FeaturePortList) {
		return fmt.Errorf("a list of ports that changes: %w", client.ErrUnsupported)
	}
	wait := uint64(watchTime.Milliseconds())
	params := wire.PortListParams{WaitMs: &wait}
	if sessionID != "" {
		params.SessionID = &sessionID
	}
	for {
		var r wire.PortListResult
		if err := f.client.Call(ctx, client.Idempotent, wire.MethodPortList, params, &r); err != nil {
			return err
		}
		if params.Seen == nil || *params.Seen != r.Version {
			changed(Listeners{r.Listeners, r.Partial})
		}
		params.Seen = &r.Version
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Forward connects to the target and passes bytes on in both directions, until both have ended. It closes conn. If the target cannot be reached, or one of the
// two sockets fails, the other one is reset. When the context ends, both are.
func (f *Forwarder) Forward(ctx context.Context, conn net.Conn, target Target) error {
	if !f.client.Has(client.FeaturePorts) {
		conn.Close()
		return fmt.Errorf("forwarding of ports: %w", client.ErrUnsupported)
	}
	r := f.begin(conn)
	r.request = func(ctx context.Context, l *client.Link, limit uint64, received *uint64) (at state, err error) {
		params := wire.PortOpenParams{ConnectionID: r.pipe.ID, Port: target.Port, Limit: limit, Received: received}
		switch {
		case target.ProcessID == "" && target.Host != "":
			params.Host = &target.Host
		case target.ProcessID != "":
			params.ProcessID = &target.ProcessID
			if target.SessionID != "" {
				params.SessionID = &target.SessionID
			}
		}
		if err := f.pipes.opening.Take(ctx); err != nil {
			return at, err
		}
		defer f.pipes.opening.Free()
		var result wire.PortOpenResult
		err = l.Call(ctx, wire.MethodPortOpen, params, &result)
		return state(result), err
	}
	r.run = func(context.Context) error {
		r.pipe.Run()
		return nil
	}
	return r.forward(ctx)
}

// begin returns a forwarding whose request and run are still to be set.
func (f *Forwarder) begin(conn net.Conn) *forwarding {
	return &forwarding{f: f, pipe: ports.NewClientPipe(f.client.NewID(), conn)}
}

// A forwarding is the work for one forwarded connection.
type forwarding struct {
	f    *Forwarder
	pipe *ports.Pipe

	// request opens the connection, or continues it if received is not nil. limit and received are those of this end.
	request func(ctx context.Context, l *client.Link, limit uint64, received *uint64) (state, error)
	// run runs the pipe, once it is open, until it ends.
	run func(context.Context) error

	opened  bool
	running sync.WaitGroup
	failed  error // the result of run
}

// A state is what the server's end has and takes.
type state struct{ Received, Limit uint64 }

// forward passes bytes on until the connection has ended.
func (r *forwarding) forward(ctx context.Context) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	r.f.pipes.add(r.pipe)
	defer r.f.pipes.remove(r.pipe)
	err := r.f.client.Through(ctx, client.Idempotent, func(l *client.Link) error { return r.on(ctx, running, l) })
	if err == nil {
		err = r.pipe.Err()
	}
	r.pipe.Stop(err != nil)
	cancel()
	r.running.Wait()
	err = cmp.Or(err, r.failed)
	if _, refused := errors.AsType[*client.ServerError](err); !refused || r.opened {
		r.close(ctx, err != nil)
	}
	return err
}

// on opens the connection on a connection of the client, or continues it there, and waits for the end of either.
func (r *forwarding) on(ctx, running context.Context, l *client.Link) error {
	lost := r.f.pipes.watch() // before the request: if l is lost already, that fails
	received, limit := r.pipe.State()
	has := &received
	if !r.opened {
		has = nil
	}
	at, err := r.request(ctx, l, limit, has)
	if err != nil {
		return err
	}
	start, err := r.pipe.Attach(ctx, l.Feed, at.Received, at.Limit)
	if err != nil {
		return err
	}
	if !r.opened {
		r.opened = true
		r.running.Go(func() { r.failed = r.run(running) }) // ends with the pipe; forward waits for it
	}
	start()
	select {
	case <-r.pipe.Done():
		return nil
	case <-lost.done:
		return lost.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close lets the server forget the connection.
func (r *forwarding) close(ctx context.Context, abort bool) {
	if ctx.Err() != nil {
		late, cancel := context.WithTimeout(r.f.client.Lifetime(), closeTimeout)
		defer cancel()
		ctx = late
	}
	params := wire.PortCloseParams{ConnectionID: r.pipe.ID}
	if abort {
		params.Abort = &abort
	}
	r.f.client.Through(ctx, client.Idempotent, func(l *client.Link) error {
		if err := r.f.pipes.closing.Take(ctx); err != nil {
			return err
		}
		defer r.f.pipes.closing.Free()
		return l.CleanUp(ctx, wire.MethodPortClose, params)
	})
}
