package ports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/oserr"
	"github.com/tetherexec/tether/wire"
)

// acceptPause is the time between attempts to accept after one has failed, for example because this program has too many open files.
const acceptPause = 100 * time.Millisecond

// A listener accepts connections for the client of a session. Those that the client has not asked for wait in the queue of the kernel, but for one.
type listener struct {
	hosts   []string // as asked for
	port    uint16
	sockets []net.Listener
	conns   chan net.Conn
	done    chan struct{} // closed by end
	room    *Room
}

// Listen lets the server listen for the client, unless it does so already.
func (t *Table) Listen(p *wire.PortListenParams) (wire.PortListenResult, error) {
	l, err := t.listen(p)
	if err != nil {
		return wire.PortListenResult{}, err
	}
	return l.result(), nil
}

func (t *Table) listen(p *wire.PortListenParams) (*listener, error) {
	if err := checkID("listenerId", p.ListenerID); err != nil {
		return nil, err
	}
	hosts, err := t.room.listenOn(p.Host)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.listeners[p.ListenerID]; l != nil {
		if l.port != p.Port || !slices.Equal(l.hosts, hosts) {
			return nil, ErrDiffers
		}
		return l, nil
	}
	switch {
	case t.closed:
		return nil, ErrClosed
	case len(t.listeners) >= MaxListeners:
		return nil, fmt.Errorf("%w: %d listeners of a session", ErrLimit, MaxListeners)
	case !t.room.listeners.TryTake():
		return nil, fmt.Errorf("%w: %d listeners of the server", ErrLimit, maxOfListeners)
	}
	sockets, err := listenAll(t.ctx, hosts, p.Port)
	if err != nil {
		t.room.listeners.Free()
		return nil, cannotListen(hosts[0], p.Port, err)
	}
	l := &listener{hosts: hosts, port: p.Port, sockets: sockets, conns: make(chan net.Conn), done: make(chan struct{}), room: t.room}
	t.listeners[p.ListenerID] = l
	for _, s := range sockets {
		t.tasks.Go(func() { l.accept(s) }) // ends with the listener
	}
	return l, nil
}

// listenOn returns the addresses for a host that a client wants the server to listen on.
func (r *Room) listenOn(host *string) ([]string, error) {
	switch {
	case !r.Listens():
		return nil, ErrNoListening
	case host == nil || strings.EqualFold(*host, "localhost"):
		return localhost, nil
	}
	address, err := netip.ParseAddr(*host)
	if err != nil || !address.Unmap().IsLoopback() {
		return nil, fmt.Errorf("%w on %q: only its loopback addresses are allowed", ErrNotLocal, *host)
	}
	return []string{address.Unmap().String()}, nil
}

// cannotListen says for people why there is no listener.
func cannotListen(host string, port uint16, err error) error {
	why := oserr.Text(err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why = "another program uses the port; choose another one, or 0 for any free one"
	case errors.Is(err, syscall.EACCES):
		why = "the user of the server has no right to use the port; choose one above 1023, or 0 for any free one"
	}
	return fmt.Errorf("%w on %s: %s", ErrNotFree, net.JoinHostPort(host, strconv.Itoa(int(port))), why)
}

// result describes the listener to the client.
func (l *listener) result() (r wire.PortListenResult) {
	for _, s := range l.sockets {
		at := s.Addr().(*net.TCPAddr).AddrPort()
		r.Addresses, r.Port = append(r.Addresses, at.Addr().String()), at.Port()
	}
	return r
}

// accept takes connections to one of the sockets, until the listener ends.
func (l *listener) accept(s net.Listener) {
	for {
		conn, err := s.Accept()
		switch {
		case err == nil:
			if !l.pass(conn) {
				conn.Close()
				return
			}
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-time.After(acceptPause):
			case <-l.done:
			}
		}
	}
}

// pass hands a connection over to the client's request for one, when the server has room for it. It reports false if the listener has ended.
func (l *listener) pass(conn net.Conn) bool {
	select {
	case l.room.open <- struct{}{}:
	case <-l.done:
		return false
	}
	select {
	case l.conns <- conn:
		return true
	case <-l.done:
		l.room.open.Free()
		return false
	}
}

// next waits for a connection, which has a slot of the server.
func (l *listener) next(ctx context.Context) (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, ErrNoListener
	case <-ctx.Done():
		return nil, ErrClosed
	}
}

func (l *listener) end() {
	close(l.done)
	closeAll(l.sockets)
	l.room.listeners.Free()
}

// Accept takes the next connection of a listener, unless the connection exists. It does not wait.
func (t *Table) Accept(p *wire.PortAcceptParams) (*Opening, error) {
	if err := checkID("listenerId", p.ListenerID); err != nil {
		return nil, err
	}
	return t.add(p.ConnectionID, end{listener: p.ListenerID}, p.Received != nil, nil)
}

// Unlisten ends a listener, if it exists. Connections that the client has taken go on.
func (t *Table) Unlisten(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.listeners[id]; l != nil {
		delete(t.listeners, id)
		l.end()
	}
}

// ListenLocal listens on a port, or on any if it is 0, of both addresses of loopback. A machine without IPv6 has only one.
func ListenLocal(ctx context.Context, port uint16) ([]net.Listener, error) {
	return listenAll(ctx, localhost, port)
}

// listenAll listens on one port of several addresses. If the first has any port, or the machine has no other address, the first is enough.
func listenAll(ctx context.Context, hosts []string, port uint16) (list []net.Listener, err error) {
	anyPort := port == 0
	for i, host := range hosts {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
		switch {
		case err == nil:
		case i > 0 && (anyPort || !errors.Is(err, syscall.EADDRINUSE)):
			return list, nil
		default:
			closeAll(list)
			return nil, err
		}
		list, port = append(list, l), uint16(l.Addr().(*net.TCPAddr).Port)
	}
	return list, nil
}

func closeAll(list []net.Listener) {
	for _, l := range list {
		l.Close()
	}
}
