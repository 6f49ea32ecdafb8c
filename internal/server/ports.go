package server

import (
	"context"
	"fmt"
	"hash/maphash"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/observe"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

// openPort connects to a target, or continues a forwarded connection. The connection is in the table before the next request is read, so that
// tether/port/close finds it.
func (r *request) openPort(p *wire.PortOpenParams) error {
	opening, err := r.reachPort(p)
	if err != nil {
		r.recordOpen(p, err)
		return err
	}
	r.conn.tasks.Go(func() { // ends with the attempt to connect, or with the connection
		pipe, err := opening.Wait(r.attachment.Context())
		if r.attachment.Context().Err() == nil {
			r.recordOpen(p, err)
		}
		r.attach(pipe, err, p.Received, p.Limit, func(received, limit uint64) any { return wire.PortOpenResult{Received: received, Limit: limit} })
	})
	return nil
}

// insideDials is a semaphore for connections into networks of processes: each is made by a process of its own.
var insideDials = slots.New(16)

// reachPort begins to connect to a target, in the network of the server or of a process.
func (r *request) reachPort(p *wire.PortOpenParams) (*ports.Opening, error) {
	own := r.attachment.Session
	if p.ProcessID == nil {
		return own.Ports.Open(p)
	}
	var child *proc.Process // of a connection that is continued, it may have ended
	if p.Received == nil {
		s, err := r.sessionOf(p.SessionID)
		if err != nil {
			return nil, err
		}
		process, err := s.Find(*p.ProcessID)
		if err != nil {
			return nil, err
		}
		child = process.Listed().Child
	}
	name := *p.ProcessID
	if p.SessionID != nil {
		name = *p.SessionID + "/" + name
	}
	return own.Ports.OpenInside(p, name, func(ctx context.Context) (net.Conn, error) {
		if err := insideDials.Take(ctx); err != nil {
			return nil, err
		}
		defer insideDials.Free()
		network, to, err := observe.Inside(child, p.Port)
		var conn net.Conn
		if err == nil {
			conn, err = confine.Dial(ctx, network, to)
			network.Close()
		}
		if err != nil {
			err = fmt.Errorf("%w: %v", ports.ErrUnreachable, err)
		}
		return conn, err
	})
}

// attach answers a request when the server has its socket, and lets the pipe send on this connection from then on.
func (r *request) attach(pipe *ports.Pipe, err error, has *uint64, takes uint64, answer func(received, limit uint64) any) {
	if has == nil {
		has = new(uint64)
	}
	var start func()
	if err == nil {
		start, err = pipe.Attach(r.attachment.Context(), r.conn.rpc.Feed, *has, takes)
	}
	if err != nil {
		r.fail(err)
		return
	}
	r.Reply(answer(pipe.State()))
	start()
}

// listenPort listens for the client.
func (r *request) listenPort(p *wire.PortListenParams) (wire.PortListenResult, error) {
	result, err := r.attachment.Session.Ports.Listen(p)
	r.recordPort(audit.Event{Event: audit.PortListening, Port: max(p.Port, result.Port)}, p.Host, err)
	return result, err
}

// acceptPort takes the next connection of a listener, or continues a forwarded connection.
func (r *request) acceptPort(p *wire.PortAcceptParams) error {
	opening, err := r.attachment.Session.Ports.Accept(p)
	if err != nil {
		return err
	}
	r.conn.tasks.Go(func() { // ends when there is a connection, or with that of the client
		pipe, err := opening.Wait(r.conn.polling.ctx)
		if err == errReplaced {
			r.Reply(wire.PortAcceptResult{}) // the client repeats the request on its next connection
			return
		}
		if err == nil && p.Received == nil {
			from, _ := netip.ParseAddrPort(pipe.Peer())
			host := from.Addr().String()
			r.recordPort(audit.Event{Event: audit.PortAccepted, Port: from.Port()}, &host, nil)
		}
		r.attach(pipe, err, p.Received, p.Limit, func(received, limit uint64) any {
			return wire.PortAcceptResult{Received: received, Limit: limit, Peer: pipe.Peer()}
		})
	})
	return nil
}

func (r *request) unlistenPort(p *wire.PortUnlistenParams) (wire.Empty, error) {
	r.attachment.Session.Ports.Unlisten(p.ListenerID)
	return wire.Empty{}, nil
}

// recordOpen records that a connection was opened or refused.
func (r *request) recordOpen(p *wire.PortOpenParams, err error) {
	if p.Received != nil {
		return
	}
	e := audit.Event{Event: audit.PortOpened, Port: p.Port}
	if p.ProcessID != nil {
		e.Process = *p.ProcessID
	}
	r.recordPort(e, p.Host, err)
}

// recordPort records an event about the port of a host; nil: of the server's machine. With an error, it was refused.
func (r *request) recordPort(e audit.Event, host *string, err error) {
	if r.conn.server.audit == nil {
		return
	}
	e.Host = "localhost"
	if host != nil {
		e.Host = *host
	}
	if err != nil {
		e.Event, e.Reason = audit.PortRefused, wireError(err).Message
	}
	r.record(r.attachment.Session, e)
}

func (r *request) closePort(p *wire.PortCloseParams) (wire.Empty, error) {
	r.attachment.Session.Ports.End(p.ConnectionID, p.Abort != nil && *p.Abort)
	return wire.Empty{}, nil
}

// Limits of lists for which clients wait. After each look, a request pauses for a second, and for longer if looks take time, so that many requests
// together use a small part of a processor.
const (
	maxPortWait    = 30 * time.Second
	portPause      = time.Second
	portPauseRatio = 10 // between a pause and the time of the look before it
)

// listPorts lists the listeners of processes, now or when the list differs from the one that the client has seen.
func (r *request) listPorts(p *wire.PortListParams) error {
	until := time.Now()
	waits := p.WaitMs != nil && p.Seen != nil && r.conn.beginPoll()
	if waits {
		until = until.Add(time.Duration(min(*p.WaitMs, uint64(maxPortWait.Milliseconds()))) * time.Millisecond)
	}
	r.conn.tasks.Go(func() { // ends with the wait, or with the connection
		result, err := r.awaitPorts(p, until)
		if waits {
			r.conn.polls.Add(-1)
		}
		if err != nil {
			r.fail(err)
			return
		}
		r.Reply(result)
	})
	return nil
}

// awaitPorts looks for listeners until their list has another version than the one that the client has seen.
func (r *request) awaitPorts(p *wire.PortListParams, until time.Time) (wire.PortListResult, error) {
	ended := r.conn.polling.ctx.Done()
	for {
		begin := time.Now()
		result, err := r.lookForPorts(p)
		pause := portPause + portPauseRatio*time.Since(begin)
		if err != nil || p.Seen == nil || result.Version != *p.Seen || time.Until(until) < pause {
			return result, err
		}
		select {
		case <-time.After(pause):
		case <-ended: // the client repeats the request on its next connection
			return result, nil
		}
	}
}

// lookForPorts finds the listeners of this moment.
func (r *request) lookForPorts(p *wire.PortListParams) (result wire.PortListResult, err error) {
	list, err := r.processesOf(p.SessionID)
	if err != nil {
		return result, err
	}
	result.Listeners = []wire.PortListener{}
	children := make([]*proc.Process, len(list))
	for i := range list {
		children[i] = list[i].Child
	}
	r.conn.server.looking.Lock()
	found, partial := observe.Listeners(children)
	r.conn.server.looking.Unlock()
	result.Partial = partial
	for i := range list {
		for _, l := range found[children[i]] {
			result.Listeners = append(result.Listeners, wire.PortListener{
				SessionID: list[i].Info.SessionID, ProcessID: list[i].Info.ProcessID,
				Address: l.Address.Addr().String(), Port: l.Address.Port(), PID: l.PID, Name: l.Name, Inside: l.Inside,
			})
		}
	}
	if p.WaitMs != nil {
		result.Version = portsVersion(result.Listeners)
	}
	return result, nil
}

var portsSeed = maphash.MakeSeed()

// portsVersion is equal for lists with the same listeners, in whatever order.
func portsVersion(list []wire.PortListener) string {
	sum := uint64(len(list))
	for _, l := range list {
		l.PID, l.Name = 0, ""
		sum += maphash.String(portsSeed, fmt.Sprint(l))
	}
	return strconv.FormatUint(sum, 36)
}

// peek takes bytes for a target directly from a message, without parsing it as a whole.
func (c *conn) peek(msg []byte) (taken bool, err error) {
	a := c.handshake.attachment.Load()
	if a == nil || c.readOnly() {
		return false, nil
	}
	n, taken, err := wire.ParsePortData(msg, wire.NotePortWrite)
	if taken && err == nil && a.Context().Err() == nil {
		if pipe := a.Session.Ports.FindBytes(n.ConnectionID); pipe != nil {
			err = pipe.Data(n.Offset, n.Chunk, false)
		}
	}
	if err != nil {
		err = badPortNote(wire.NotePortWrite, err)
	}
	return taken, err
}

func isPortNote(method string) bool {
	return method == wire.NotePortWrite || method == wire.NotePortAck
}

// portNote processes a notification about a forwarded connection. One that is not known was closed: it is ignored. So are notifications of a client that has
// lost its session.
func (c *conn) portNote(a *session.Attachment, method string, params []byte) error {
	if method == wire.NotePortAck {
		var n wire.PortAck
		if err := wire.Decode(params, &n); err != nil {
			return err
		}
		if pipe := a.Session.Ports.Find(n.ConnectionID); pipe != nil && a.Context().Err() == nil {
			return pipe.Ack(n.Offset, n.Limit)
		}
		return nil
	}
	var n wire.PortData
	if err := wire.Decode(params, &n); err != nil {
		return err
	}
	if pipe := a.Session.Ports.Find(n.ConnectionID); pipe != nil && a.Context().Err() == nil {
		return pipe.Data(n.Offset, n.Chunk, n.End != nil && *n.End)
	}
	return nil
}

// badPortNote is the end of a connection whose client breaks the rules of forwarded connections.
func badPortNote(method string, err error) error {
	return &rpc.CloseError{Code: rpc.ClosePolicy, Reason: "bad " + method + ": " + err.Error()}
}
