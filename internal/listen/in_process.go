package listen

import (
	"context"
	"net"
	"sync"
)

// OpenInProcess returns a listener for this process alone: it has no address, and dial is the
// only way to connect to it. It serves like a listener of [Open], until it is closed.
func OpenInProcess() (l *Listener, dial func(context.Context) (net.Conn, error)) {
	inner := &pairListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	return &Listener{Listener: inner, access: new(access), close: inner.Close}, inner.dial
}

// A pairListener accepts the far ends of the pairs that dial makes.
type pairListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pairListener) dial(ctx context.Context) (net.Conn, error) {
	near, far, err := connPair()
	if err != nil {
		return nil, err
	}
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	near.Close()
	far.Close()
	return nil, err
}

func (l *pairListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pairListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pairListener) Addr() net.Addr { return inProcess{} }

// inProcess stands for the address of a listener without one.
type inProcess struct{}

func (inProcess) Network() string { return "in-process" }
func (inProcess) String() string  { return "in-process" }
