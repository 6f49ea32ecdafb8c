package appserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/wire"
)

// Limits of one connection. At each limit the client is told that the server is
// overloaded, and may try again.
const (
	// maxProcesses limits the handles in use and the ended processes that have left
	// others running.
	maxProcesses = 4096

	// maxPending and maxPendingBytes limit the spawns and writes that are not
	// answered. They are half of what the connection reads before it stops reading,
	// so that a kill is always read.
	maxPending      = rpc.MaxRequests / 2
	maxPendingBytes = rpc.MaxMessage
)

// maxCollected limits the output in memory, of all connections of a server, that waits
// for its process to end and for the client to read it. At the limit output is cut off,
// as at the limit that a client has set.
const maxCollected = 512 << 20

// A conn is one client's connection, with everything that it started.
type conn struct {
	server    *Server
	rpc       *rpc.Conn
	scheduler schedule.Scheduler
	log       *slog.Logger

	client    *client // nil before the handshake; only used by the reader
	pending   atomic.Int64
	bytes     atomic.Int64 // of the pending requests
	collected atomic.Int64 // bytes of output in memory; the server counts them too

	kills sync.WaitGroup // grows only under mu, and not after ended is set

	mu      sync.Mutex
	handles map[string]*process        // in use
	left    map[*proc.Process]struct{} // ended, but may have left processes running
	sweepAt int                        // size of left at which it is swept
	ended   bool                       // the connection has ended: only end starts kills now
}

// A client is the client's part of the handshake.
type client struct {
	experimental bool
	optedOut     map[string]bool // notifications that it does not want
}

// serve runs a connection until it ends.
func (s *Server) serve(ctx context.Context, stream rpc.Stream, peer string) {
	s.newConn(ctx, stream, peer).run()
}

func (s *Server) newConn(ctx context.Context, stream rpc.Stream, peer string) *conn {
	c := &conn{
		server: s, log: s.log.With("peer", peer),
		handles: map[string]*process{}, left: map[*proc.Process]struct{}{}, sweepAt: minSweep,
	}
	c.rpc = rpc.New(ctx, stream, rpc.Config{
		Handler: c, Log: c.log, ParsePrefix: wire.InvalidAppRequest, Salvage: salvage, Memory: s.memory, Refusal: refusal,
		Urgent: func(method string) bool { return methods[method].prepare != nil && !methods[method].waits },
	})
	return c
}

// run returns when the connection has ended and everything that it started is gone.
func (c *conn) run() {
	why := c.rpc.Serve()
	if rpc.IsDisconnect(why) {
		c.log.Debug("connection lost", "err", why)
	} else {
		c.log.Info("connection closed", "err", why)
	}
	c.end()
}

// salvage finds the id of a request that our parser refuses, for example because a
// member comes twice. A message without an id is dropped.
func salvage(msg []byte) (wire.ID, bool) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
	}
	if json.Unmarshal(msg, &m) != nil || m.Method == nil || len(m.ID) == 0 {
		return wire.ID{}, false
	}
	again, err := wire.Parse([]byte(`{"method":"","id":` + string(m.ID) + `}`))
	return again.ID, err == nil
}

// end kills everything that the connection started and returns when it is gone.
func (c *conn) end() {
	c.mu.Lock()
	c.ended = true
	var children []*proc.Process
	for _, p := range c.handles {
		if child := p.abandon(); child != nil {
			children = append(children, child)
		}
	}
	for child := range c.left {
		children = append(children, child)
	}
	c.mu.Unlock()
	killAll(children)
	c.scheduler.Wait() // a start that is running kills what it has started
	c.kills.Wait()
	c.forget(c.collected.Load()) // output that was not sent will not be sent
}

// refusal is the answer to a request for which there was no room. For input it is
// nil, which ends the connection: after a refused write, the writes that follow it
// must not be accepted.
func refusal(method string) *wire.Error {
	if method == wire.MethodWriteStdin {
		return nil
	}
	return errOverloaded
}

// Request implements rpc.Handler.
func (c *conn) Request(r *rpc.Request) {
	if r.Method == wire.MethodInitialize {
		c.initialize(r)
		return
	}
	m, known := methods[r.Method]
	if !known {
		c.invalid(r, wire.UnknownAppMethod(r.Method, methodNames))
		return
	}
	job, err := m.prepare(c, r)
	switch {
	case err != nil:
		c.invalid(r, err)
	case c.client == nil:
		r.Fail(wire.Errorf(wire.CodeInvalidRequest, "Not initialized"))
	case !c.client.experimental:
		r.Fail(wire.Errorf(wire.CodeInvalidRequest, "%s requires experimentalApi capability", r.Method))
	case m.waits && !c.enter(len(r.Params)):
		r.Fail(errOverloaded)
	default:
		c.scheduler.Submit(job)
	}
}

// invalid answers a request that cannot be decoded.
func (c *conn) invalid(r *rpc.Request, err error) {
	r.Fail(wire.Errorf(wire.CodeInvalidRequest, "%s%v", wire.InvalidAppRequest, err))
}

// Notification implements rpc.Handler. Clients send initialized, which has no
// effect. All other notifications are ignored too.
func (c *conn) Notification(method string, _ []byte) error {
	if method != wire.MethodInitialized {
		c.log.Debug("ignored a notification", "method", method)
	}
	return nil
}

func (c *conn) initialize(r *rpc.Request) {
	var p wire.AppInitializeParams
	if err := wire.DecodeAppParams(r.Params, &p); err != nil {
		c.invalid(r, err)
		return
	}
	switch {
	case c.client != nil:
		r.Fail(wire.Errorf(wire.CodeInvalidRequest, "Already initialized"))
		return
	case !headerValue(p.ClientInfo.Name):
		r.Fail(wire.Errorf(wire.CodeInvalidRequest, "Invalid clientInfo.name: '%s'. Must be a valid HTTP header value.", p.ClientInfo.Name))
		return
	}
	c.client = &client{optedOut: map[string]bool{}}
	if wishes := p.Capabilities; wishes != nil {
		c.client.experimental = wishes.ExperimentalAPI
		if wishes.OptOutNotificationMethods != nil {
			for _, method := range *wishes.OptOutNotificationMethods {
				c.client.optedOut[method] = true
			}
		}
	}
	hello := c.server.hello
	hello.UserAgent = userAgent(p.ClientInfo, c.server.version)
	r.Reply(hello)
	c.server.procs.Prepare() // the client is likely to start a command
}

// headerValue reports whether s may be the value of an HTTP header.
func headerValue(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

// enter counts a pending request, unless there are too many.
func (c *conn) enter(size int) bool {
	pending, bytes := c.pending.Add(1), c.bytes.Add(int64(size))
	if pending > maxPending || pending > 1 && bytes > maxPendingBytes {
		c.leave(size)
		return false
	}
	return true
}

func (c *conn) leave(size int) {
	c.pending.Add(-1)
	c.bytes.Add(-int64(size))
}

var errOverloaded = wire.Errorf(wire.CodeOverloaded, "Server overloaded; retry later.")

// minSweep is the least number of ended processes at which left is swept.
const minSweep = 64

// reserve takes the handle of a process that is about to start.
func (c *conn) reserve(p *process) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handles[p.handle] != nil {
		return wire.Errorf(wire.CodeInvalidRequest, "duplicate active process handle: %s", wire.Quote(p.handle))
	}
	if len(c.handles)+len(c.left) >= maxProcesses {
		c.sweepLocked()
		if len(c.handles)+len(c.left) >= maxProcesses {
			return errOverloaded
		}
	}
	c.handles[p.handle] = p
	return nil
}

// find returns the process of a handle, if it is running.
func (c *conn) find(handle string) (*process, error) {
	c.mu.Lock()
	p := c.handles[handle]
	c.mu.Unlock()
	if p == nil || p.startedChild() == nil { // without a child it was not started
		return nil, wire.Errorf(wire.CodeInvalidRequest, "no active process for process handle %s", wire.Quote(handle))
	}
	if !p.running() {
		return nil, notRunning(handle)
	}
	return p, nil
}

func notRunning(handle string) *wire.Error {
	return wire.Errorf(wire.CodeInvalidRequest, "process %s is no longer running", wire.Quote(handle))
}

// release frees a handle. If the process was started, its child is kept until the
// connection ends or all its processes have ended. If the connection has ended already, end
// kills the child.
func (c *conn) release(p *process, child *proc.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.handles, p.handle)
	if c.ended || child == nil || !child.Leftovers() {
		return
	}
	c.left[child] = struct{}{}
	if len(c.left) >= c.sweepAt {
		c.sweepLocked()
	}
}

// sweepLocked forgets the ended processes that have left no others.
func (c *conn) sweepLocked() {
	for child := range c.left {
		if !child.Leftovers() {
			delete(c.left, child)
		}
	}
	c.sweepAt = max(minSweep, 2*len(c.left))
}

// kill kills a process and everything that it started, without waiting for it.
func (c *conn) kill(child *proc.Process) {
	killGroup(child)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended { // otherwise end kills it
		c.kills.Go(child.Kill) // end waits for it
	}
}

// killAll kills processes and everything that they started, and waits until they
// are gone.
func killAll(children []*proc.Process) {
	for _, child := range children {
		killGroup(child)
	}
	var kills sync.WaitGroup
	for _, child := range children {
		kills.Go(child.Kill)
	}
	kills.Wait()
}
