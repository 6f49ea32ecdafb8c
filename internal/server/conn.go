package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/files/watch"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

// maxPolls is how many reads of one connection may wait. A read above the limit is
// answered at once.
const maxPolls = 1024

// A conn is one client's connection: it speaks the handshake, hands requests to
// the methods, and is the session's Peer.
type conn struct {
	server    *Server
	origin    Origin
	rpc       *rpc.Conn
	stream    rpc.Stream
	scheduler schedule.Scheduler
	log       *slog.Logger
	began     time.Time

	handshake    handshake
	pushes       outputPushes
	observations observations
	controller   session.Controller
	handles      handles
	streams      httpStreams
	watcher      watch.Watcher

	tasks     sync.WaitGroup // requests that are not answered yet
	polls     atomic.Int64   // reads that wait for output
	polling   pollContext    // set by initialize
	questions atomic.Int64   // questions that wait for the client's answer
	searching slots.Slots    // one search at a time
	reading   slots.Slots    // fs/readFile requests that hold a file
}

// serve runs a connection until it ends. It reports whether the client's session is over.
func (s *Server) serve(ctx context.Context, stream rpc.Stream, from Origin, parsePrefix string) (sessionOver bool) {
	c := &conn{
		server: s, origin: from, stream: stream, log: s.log.With("peer", from.Client.Peer), began: time.Now(),
		searching: slots.New(1), reading: slots.New(maxFileReads),
	}
	c.rpc = rpc.New(ctx, stream, rpc.Config{
		Handler: c, Log: c.log, ParsePrefix: parsePrefix, Memory: s.memory, Refusal: refusal, LastMessage: c.lastMessage,
		Urgent: isUrgent, Peek: c.peek,
	})
	s.draining.add(c)
	defer s.draining.remove(c)
	c.logEnd(c.rpc.Serve())
	c.detach()
	c.pushes.end()
	c.observations.end()
	c.controller.End()
	keep := context.AfterFunc(ctx, c.endSession) // a start that hangs must not delay the end of the server
	defer keep()
	c.scheduler.Wait()
	c.tasks.Wait()
	c.handles.closeAll()
	c.watcher.Close()
	return c.sessionOver(ctx)
}

// sessionOver reports whether the client's session has ended, or is about to end with the server.
func (c *conn) sessionOver(serving context.Context) bool {
	a := c.handshake.attachment.Load()
	return a != nil && (serving.Err() != nil || a.Session.Over())
}

// endSession ends the client's session, even if requests are running in it.
func (c *conn) endSession() {
	if a := c.handshake.attachment.Load(); a != nil {
		a.Session.End()
	}
}

func (c *conn) detach() {
	if a := c.handshake.attachment.Load(); a != nil {
		a.Detach()
	}
}

// Notification implements rpc.Handler.
func (c *conn) Notification(method string, params []byte) error {
	a := c.handshake.attachment.Load()
	switch {
	case method == wire.MethodInitialized && a == nil:
		return &rpc.CloseError{Code: rpc.ClosePolicy, Reason: "initialized before a successful initialize"}
	case method == wire.MethodInitialized:
		if c.handshake.initialized.CompareAndSwap(false, true) {
			a.Initialized()
		}
	case method == wire.MethodAck && a != nil:
		var p wire.AckParams
		if err := wire.Decode(params, &p); err != nil {
			return &rpc.CloseError{Code: rpc.ClosePolicy, Reason: "bad " + method + ": " + err.Error()}
		}
		a.Session.Ack(p.ProcessID, p.Seq)
	case isPortNote(method) && a != nil && !c.readOnly():
		if err := c.portNote(a, method, params); err != nil {
			return badPortNote(method, err)
		}
	default:
		return &rpc.CloseError{Code: rpc.ClosePolicy, Reason: "unexpected notification " + method}
	}
	return nil
}

// Alive implements session.Peer.
func (c *conn) Alive(ctx context.Context) bool { return c.rpc.Alive(ctx) }

// HeardSince implements session.Peer.
func (c *conn) HeardSince(t time.Time) bool { return c.rpc.HeardSince(t) }

// maxQuestions is how many questions to one client may wait for their answers.
const maxQuestions = 256

// Ask implements session.Peer.
func (c *conn) Ask(ctx context.Context, method string, params any) (wire.RawValue, error) {
	if c.questions.Add(1) > maxQuestions {
		c.questions.Add(-1)
		return nil, errTooManyQuestions
	}
	defer c.questions.Add(-1)
	return c.rpc.Call(ctx, method, params)
}

var errTooManyQuestions = fmt.Errorf("the client already has %d unanswered questions", maxQuestions)

// Tell implements session.Peer.
func (c *conn) Tell(method string, params any) {
	if sent, err := c.rpc.NotifyIfRoom(method, params); !sent || err != nil {
		c.log.Debug("notification dropped", "method", method, "err", err)
	}
}

// Evict implements session.Peer. Waiting polls were woken when the session was
// taken over, and are answered before the connection ends.
func (c *conn) Evict(why error) {
	c.rpc.Dismiss(&rpc.CloseError{Code: rpc.ClosePolicy, Reason: why.Error()})
}
