package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/files/watch"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// maxPolls is how many reads of one connection may wait; one above it is
// answered at once.
const maxPolls = 1024

// A conn is one client's connection: it speaks the handshake, hands requests to
// the methods, and is the session's Peer.
type conn struct {
	server    *Server
	rpc       *rpc.Conn
	scheduler schedule.Scheduler
	log       *slog.Logger

	attachment  atomic.Pointer[session.Attachment] // set by initialize
	initialized atomic.Bool
	goodbye     atomic.Bool // the client wants to know that the server ends
	polls       atomic.Int64
	questions   atomic.Int64   // of ours that wait for the client
	tasks       sync.WaitGroup // requests that wait
	handles     handles
	streams     httpStreams
	watcher     watch.Watcher
	searching   chan struct{} // has a place for one search
	reading     chan struct{} // has a place for each file that is read as a whole

	mu           sync.Mutex
	pushes       map[*outputPush]struct{} // what is registered with a log
	observations map[int64]*observation
	lastObserve  int64
	ended        bool // nothing is followed or observed any more
}

// serve runs a connection to its end.
func (s *Server) serve(ctx context.Context, stream rpc.Stream, peer, parsePrefix string) {
	c := &conn{
		server: s, log: s.log.With("peer", peer),
		searching: make(chan struct{}, 1), reading: make(chan struct{}, maxFileReads),
	}
	c.rpc = rpc.New(ctx, stream, rpc.Config{
		Handler: c, Log: c.log, ParsePrefix: parsePrefix, Memory: s.memory, Refusal: refusal, Farewell: c.farewell,
		Urgent: func(method string) bool { return methods[method].pace == urgent },
	})
	why := c.rpc.Serve()
	if rpc.IsDisconnect(why) {
		c.log.Debug("connection lost", "err", why)
	} else {
		c.log.Info("connection closed", "err", why)
	}
	c.detach()
	c.endPushes()
	c.endObservations()
	keep := context.AfterFunc(ctx, c.endSession) // a start that hangs must not hold up the server's end
	defer keep()
	c.scheduler.Wait()
	c.tasks.Wait()
	c.handles.closeAll()
	c.watcher.Close()
}

// endSession ends the client's session, whatever is under way in it.
func (c *conn) endSession() {
	if a := c.attachment.Load(); a != nil {
		a.Session.End()
	}
}

func (c *conn) detach() {
	if a := c.attachment.Load(); a != nil {
		a.Detach()
	}
}

// initialize opens or resumes a session. The reader waits for it, as everything
// that follows depends on it.
func (c *conn) initialize(r *rpc.Request) {
	var p wire.InitializeParams
	if err := wire.Decode(r.Params, &p); err != nil {
		r.Fail(wire.Errorf(wire.CodeInvalidParams, "%v", err))
		return
	}
	if c.attachment.Load() != nil {
		r.Fail(wire.Errorf(wire.CodeInvalidRequest, "initialize may only be sent once per connection"))
		return
	}
	a, err := c.attach(&p)
	if err != nil {
		r.Fail(wireError(err))
		return
	}
	c.attachment.Store(a)
	if t := p.Tether; t != nil && t.Goodbye != nil {
		c.goodbye.Store(*t.Goodbye)
	}
	s := a.Session
	r.Reply(wire.InitializeResult{
		SessionID: s.ID, EnvironmentInfo: c.server.info,
		Tether: wire.TetherInfo{
			Version: c.server.config.Version, PublicID: s.Public,
			TTLMs: uint64(s.TTL().Milliseconds()), Features: c.features(),
		},
	})
}

func (c *conn) attach(p *wire.InitializeParams) (*session.Attachment, error) {
	if p.ResumeSessionID != nil {
		return c.server.sessions.Resume(c.rpc.Context(), *p.ResumeSessionID, c)
	}
	w := session.Wishes{Client: p.ClientName}
	if t := p.Tether; t != nil {
		if t.TTLMs != nil {
			w.TTL = time.Duration(min(*t.TTLMs, uint64(c.server.config.SessionTTLMax.Milliseconds()))) * time.Millisecond
		}
		w.Acks = t.Acks != nil && *t.Acks
		if t.Label != nil {
			w.Label = *t.Label
		}
		if err := checkLabel(w.Label); err != nil {
			return nil, err
		}
	}
	return c.server.sessions.Open(w, c)
}

// features are what a tether client may rely on.
func (c *conn) features() []string {
	list := []string{"ack", "closeStdin", "concurrent", "endSession", "goodbye", "hostPorts", "keepNewest", "label", "list", "observe", "once", "oneStream",
		"remoteControl", "resize", "retryStart", "search", "sessionTtl", "signal", "state", "termSize"}
	if files.HasModes {
		list = append(list, "fileAttributes")
	}
	if upload.Supported {
		list = append(list, "upload")
	}
	slices.Sort(list)
	return list
}

// Notification implements rpc.Handler.
func (c *conn) Notification(method string, params []byte) error {
	a := c.attachment.Load()
	switch {
	case method == wire.MethodInitialized && a == nil:
		return &rpc.CloseError{Code: rpc.ClosePolicy, Reason: "initialized before a successful initialize"}
	case method == wire.MethodInitialized:
		if c.initialized.CompareAndSwap(false, true) {
			a.Initialized()
		}
	case method == wire.MethodAck && a != nil:
		var p wire.AckParams
		if err := wire.Decode(params, &p); err != nil {
			return &rpc.CloseError{Code: rpc.ClosePolicy, Reason: "bad " + method + ": " + err.Error()}
		}
		a.Session.Ack(p.ProcessID, p.Seq)
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

var errTooManyQuestions = fmt.Errorf("the client has %d questions to answer already", maxQuestions)

// Tell implements session.Peer.
func (c *conn) Tell(method string, params any) {
	if sent, err := c.rpc.NotifyIfRoom(method, params); !sent || err != nil {
		c.log.Debug("notification dropped", "method", method, "err", err)
	}
}

// Evict implements session.Peer. Polls that wait were woken by the loss of the
// session, and are answered first.
func (c *conn) Evict(why error) {
	c.rpc.Dismiss(&rpc.CloseError{Code: rpc.ClosePolicy, Reason: why.Error()})
}
