package server

import (
	"context"
	"errors"
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
	scheduler *schedule.Scheduler
	log       *slog.Logger
	serial    bool // everything goes through the scheduler, one after the other

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
		server: s, log: s.log.With("peer", peer), serial: s.config.ConcurrentRequests == 1,
		searching: make(chan struct{}, 1), reading: make(chan struct{}, maxFileReads),
	}
	c.rpc = rpc.New(ctx, stream, rpc.Config{
		Handler: c, Log: c.log, ParsePrefix: parsePrefix, Memory: s.memory, Refusal: refusal, Farewell: c.farewell,
		Urgent: func(method string) bool { return methods[method].control },
	})
	c.scheduler = schedule.NewScheduler(c.rpc.Context(), s.config.ConcurrentRequests)
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
	c.detach() // from what an initialize that was under way has attached
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

// Request implements rpc.Handler.
func (c *conn) Request(r *rpc.Request) {
	if r.Method == wire.MethodInitialize {
		if !c.serial {
			c.initialize(r)
			return
		}
		c.scheduler.Submit(schedule.Job{Run: func(done func()) {
			defer done()
			c.initialize(r)
		}})
		return
	}
	m, known := methods[r.Method]
	if !known {
		c.refuse(r, wire.Errorf(wire.CodeMethodNotFound, "exec-server stub does not implement `%s` yet", r.Method))
		return
	}
	p, err := m.prepare(r.Params)
	r.Params = nil // what is left of it was copied
	if err == nil && !c.serial {
		_, err = c.ready(m.family) // now: the handshake may be done before it runs
	}
	if err != nil {
		c.refuse(r, err)
		return
	}
	if p.arrive != nil && !c.serial { // else they run one by one anyway
		p.touches = p.arrive(c)
	}
	job := schedule.Job{
		Process: p.process, Exclusive: p.exclusive, Slow: p.slow, Control: m.control, Touches: p.touches,
		Run: func(done func()) {
			a, err := c.ready(m.family)
			if err != nil {
				c.fail(r, err)
				done()
				return
			}
			p.run(c, a, r, done)
		},
	}
	if p.try != nil {
		job.Try = func() bool {
			a, err := c.ready(m.family)
			return err == nil && p.try(c, a, r)
		}
	}
	if p.passing {
		job = c.afterChanges(job)
	}
	c.scheduler.Submit(job)
}

// refusal is the answer to a request for which there was no room. Input must not have
// holes: when a write was refused, none that is on its way behind it may be accepted.
func refusal(method string) *wire.Error {
	if method == wire.MethodProcessWrite || method == wire.MethodProcessWriteAny {
		return nil
	}
	return wireError(rpc.ErrNoRoom)
}

// refuse answers a request that cannot be run, in its turn.
func (c *conn) refuse(r *rpc.Request, err error) {
	c.scheduler.Submit(schedule.Job{Control: true, Run: func(done func()) {
		c.fail(r, err)
		done()
	}})
}

func (c *conn) fail(r *rpc.Request, err error) { r.Fail(wireError(err)) }

// ready returns the client's hold on its session, once the handshake is done.
func (c *conn) ready(family string) (*session.Attachment, error) {
	a := c.attachment.Load()
	switch {
	case a == nil:
		return nil, wire.Errorf(wire.CodeInvalidRequest, "client must call initialize before using %s methods", family)
	case !c.initialized.Load():
		return nil, wire.Errorf(wire.CodeInvalidRequest, "client must send initialized before using %s methods", family)
	case errors.Is(context.Cause(a.Context()), session.ErrResumed):
		return nil, session.ErrResumed
	}
	return a, nil
}

// initialize opens or resumes a session. The reader waits for it, as everything
// that follows depends on it.
func (c *conn) initialize(r *rpc.Request) {
	var p wire.InitializeParams
	if err := wire.Decode(r.Params, &p); err != nil {
		c.fail(r, wire.Errorf(wire.CodeInvalidParams, "%v", err))
		return
	}
	if c.attachment.Load() != nil {
		c.fail(r, wire.Errorf(wire.CodeInvalidRequest, "initialize may only be sent once per connection"))
		return
	}
	a, err := c.attach(&p)
	if err != nil {
		c.fail(r, err)
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
	list := []string{"ack", "closeStdin", "endSession", "goodbye", "hostPorts", "keepNewest", "label", "list", "observe", "once", "oneStream",
		"remoteControl", "resize", "retryStart", "search", "sessionTtl", "signal", "state", "termSize"}
	if files.HasModes {
		list = append(list, "fileAttributes")
	}
	if upload.Supported {
		list = append(list, "upload")
	}
	if !c.serial {
		list = append(list, "concurrent")
	}
	slices.Sort(list)
	return list
}

// Notification implements rpc.Handler.
func (c *conn) Notification(method string, params []byte) error {
	if !c.serial {
		return c.notified(method, params)
	}
	c.scheduler.Submit(schedule.Job{Run: func(done func()) {
		defer done()
		if err := c.notified(method, params); err != nil {
			c.rpc.Close(err)
		}
	}})
	return nil
}

func (c *conn) notified(method string, params []byte) error {
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
