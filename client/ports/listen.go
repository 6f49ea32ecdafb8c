package ports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

// MaxListeners is how many listeners a session may have.
const MaxListeners = ports.MaxListeners

const (
	// maxAccepting is how many connections a listener asks for at a time: those of several programs need not wait for each other.
	maxAccepting = 4

	// listenPause is the time between attempts to listen again after the server has lost a listener.
	listenPause = time.Second
)

// A Listener is a port of the executor's machine whose connections come to this one. It ends with the session.
type Listener struct {
	Port      uint16   // of the executor's machine
	Addresses []string // IP addresses of its loopback

	f     *Forwarder
	id    string
	host  string
	times int    // that the server was made to listen
	told  string // what was reported last of what keeps the server from listening
}

// Listen lets the executor listen on a port of its machine, or on any free one if it is 0. Without a host, it listens on 127.0.0.1 and ::1, and with one on that
// address of its loopback. The server has to allow it. The caller calls Serve.
func (f *Forwarder) Listen(ctx context.Context, at Target) (*Listener, error) {
	if !f.client.Has(client.FeaturePortListen) {
		return nil, fmt.Errorf("listening on the other machine: %w", client.ErrUnsupported)
	}
	l := &Listener{Port: at.Port, f: f, id: f.client.NewID(), host: at.Host}
	return l, l.listen(ctx)
}

func (l *Listener) listen(ctx context.Context) error {
	params := wire.PortListenParams{ListenerID: l.id, Port: l.Port}
	if l.host != "" {
		params.Host = &l.host
	}
	var r wire.PortListenResult
	err := l.f.client.Call(ctx, client.Idempotent, wire.MethodPortListen, params, &r)
	if err == nil {
		l.Port, l.Addresses = r.Port, r.Addresses
		l.times++
	}
	return err
}

// Serve connects the connections that come to the listener with a target that this machine can reach, until the context ends or the session is lost. Then it ends
// the listener, and returns when all connections have ended. If the server has lost the listener, because its worker has died, Serve lets it listen again.
// report, if not nil, is called with the end of each connection that has failed, and when the server has not listened; several calls may run at a time.
func (l *Listener) Serve(ctx context.Context, target Target, report func(error)) error {
	if report == nil {
		report = func(error) {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.f.client.Lifetime(), func() { cancel(context.Cause(l.f.client.Lifetime())) })()
	asking, refused := slots.New(maxAccepting), make(chan refusal)
	var serving sync.WaitGroup
	for ctx.Err() == nil {
		select {
		case r := <-refused:
			if r.times == l.times { // else the server listens since
				l.again(ctx, r.err, report)
			}
			continue
		case <-ctx.Done():
			continue
		case asking <- struct{}{}:
		}
		if l.f.pipes.open.Take(ctx) != nil {
			break
		}
		times := l.times
		serving.Go(func() { // ends with the connection or ctx
			defer l.f.pipes.open.Free()
			accepted, err := l.forward(ctx, target, asking.Free)
			switch {
			case err == nil || ctx.Err() != nil:
			case accepted:
				report(err)
			default:
				select {
				case refused <- refusal{err, times}:
				case <-ctx.Done():
				}
				asking.Free()
			}
		})
	}
	serving.Wait()
	l.close()
	return context.Cause(ctx)
}

// A refusal is the answer of a server to a request for a connection, when it had been made to listen so many times.
type refusal struct {
	err   error
	times int
}

// again lets the server listen again, if that is what the refusal of a request needs, and else pauses.
func (l *Listener) again(ctx context.Context, err error, report func(error)) {
	if refused, ok := errors.AsType[*client.ServerError](err); ok && refused.Reason == wire.ErrorUnknownListener {
		if err = l.listen(ctx); err == nil {
			l.told = ""
			report(fmt.Errorf("the server had lost the listener on port %d of its machine, and listens again", l.Port))
			return
		}
	}
	if ctx.Err() == nil && l.told != err.Error() {
		l.told = err.Error()
		report(err)
	}
	select {
	case <-time.After(listenPause):
	case <-ctx.Done():
	}
}

// forward waits for a connection and passes its bytes on. asked is called when there is one.
func (l *Listener) forward(ctx context.Context, target Target, asked func()) (accepted bool, err error) {
	r := l.f.begin(nil)
	from := ""
	r.request = func(ctx context.Context, link *client.Link, limit uint64, received *uint64) (state, error) {
		params := wire.PortAcceptParams{ListenerID: l.id, ConnectionID: r.pipe.ID, Limit: limit, Received: received}
		for {
			var at wire.PortAcceptResult
			err := link.Call(ctx, wire.MethodPortAccept, params, &at)
			if from = cmp.Or(at.Peer, from); err != nil || at.Peer != "" {
				return state{at.Received, at.Limit}, err
			} // else the server admits no further request on this connection, and the call fails with it
		}
	}
	r.run = func(ctx context.Context) error {
		asked()
		conn, err := ports.Reach(ctx, target.Host, target.Port)
		if err != nil {
			r.pipe.Stop(true)
			return err
		}
		if r.pipe.Use(conn) {
			r.pipe.Run()
		}
		return nil
	}
	if err = r.forward(ctx); err != nil && r.opened {
		err = fmt.Errorf("connection from %s to %s: %w", from, target, err)
	}
	return r.opened, err
}

// close lets the server end the listener.
func (l *Listener) close() {
	ctx, cancel := context.WithTimeout(l.f.client.Lifetime(), closeTimeout)
	defer cancel()
	l.f.client.Through(ctx, client.Idempotent, func(link *client.Link) error {
		return link.CleanUp(ctx, wire.MethodPortUnlisten, wire.PortUnlistenParams{ListenerID: l.id})
	})
}
