package server

import (
	"cmp"
	"slices"
	"syscall"

	"github.com/tetherexec/tether/internal/fsrpc"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// methods is the whole protocol after the handshake.
var methods = map[string]method{
	wire.MethodEnvironmentInfo:   call("environment info", (*conn).environmentInfo).onControlLane(),
	wire.MethodEnvironmentStatus: call("environment status", (*conn).environmentStatus).onControlLane(),

	wire.MethodProcessStart:     slow("exec", (*conn).startProcess, func(p *wire.StartParams) string { return p.ProcessID }),
	wire.MethodProcessRead:      async("exec", (*conn).readOutput, func(p *wire.ReadParams) string { return p.ProcessID }),
	wire.MethodProcessWrite:     async("exec", (*conn).writeInput, func(p *wire.WriteParams) string { return p.ProcessID }),
	wire.MethodProcessSignal:    ordered("exec", (*conn).interrupt, func(p *wire.SignalParams) string { return p.ProcessID }).onControlLane(),
	wire.MethodProcessTerminate: ordered("exec", (*conn).terminate, func(p *wire.ProcessParams) string { return p.ProcessID }).onControlLane(),

	wire.MethodFsGetMetadata: apart("filesystem", (*conn).metadata),

	wire.MethodProcessResize:     ordered("exec", (*conn).resize, func(p *wire.ResizeParams) string { return p.ProcessID }),
	wire.MethodProcessCloseStdin: ordered("exec", (*conn).closeStdin, func(p *wire.ProcessParams) string { return p.ProcessID }),
	wire.MethodProcessSignalAny:  ordered("exec", (*conn).signal, func(p *wire.SignalAnyParams) string { return p.ProcessID }).onControlLane(),
	wire.MethodProcessList:       call("exec", (*conn).listProcesses),
	wire.MethodProcessObserve:    async("exec", (*conn).observe, func(p *wire.ObserveParams) string { return p.ProcessID }),
	wire.MethodProcessUnobserve:  call("exec", (*conn).unobserve),
	wire.MethodSessionList:       call("exec", (*conn).listSessions),
}

// A method is one row of the protocol: it decodes the parameters of a request
// and says how it is to be run.
type method struct {
	family  string // how the handshake's errors call it
	control bool
	prepare func(params []byte) (prepared, error)
}

// prepared is a request whose parameters are known to be well-formed.
type prepared struct {
	process   *string // keeps its order among the requests of this process
	exclusive bool    // and makes the later ones wait
	slow      bool    // waits while it runs
	run       func(c *conn, a *session.Attachment, r *rpc.Request, done func())
}

func (m method) onControlLane() method {
	m.control = true
	return m
}

// async adapts a function that answers when it likes to, on behalf of a process.
func async[P any](family string, f func(*conn, *session.Attachment, *rpc.Request, *P, func()), process func(*P) string) method {
	return method{family: family, prepare: func(params []byte) (prepared, error) {
		p := new(P)
		if err := wire.Decode(params, p); err != nil {
			return prepared{}, wire.Errorf(wire.CodeInvalidParams, "%v", err)
		}
		ready := prepared{run: func(c *conn, a *session.Attachment, r *rpc.Request, done func()) { f(c, a, r, p, done) }}
		if process != nil {
			id := process(p)
			ready.process = &id
		}
		return ready, nil
	}}
}

// ordered adapts a function that answers at once, on behalf of a process.
func ordered[P, R any](family string, f func(*conn, *session.Attachment, *P) (R, error), process func(*P) string) method {
	return async(family, func(c *conn, a *session.Attachment, r *rpc.Request, p *P, done func()) {
		defer done()
		result, err := f(c, a, p)
		if err != nil {
			c.fail(r, err)
			return
		}
		r.Reply(result)
	}, process)
}

// call adapts a function that answers at once and has nothing to wait for.
func call[P, R any](family string, f func(*conn, *session.Attachment, *P) (R, error)) method {
	return ordered(family, f, nil)
}

// apart adapts a function that answers when it returns and may take its time:
// nothing waits for it.
func apart[P, R any](family string, f func(*conn, *session.Attachment, *P) (R, error)) method {
	m := call(family, f)
	prepare := m.prepare
	m.prepare = func(params []byte) (prepared, error) {
		p, err := prepare(params)
		p.slow = true
		return p, err
	}
	return m
}

// slow adapts a function that waits, and that later requests of the same
// process wait for.
func slow[P any](family string, f func(*conn, *session.Attachment, *rpc.Request, *P, func()), process func(*P) string) method {
	m := async(family, f, process)
	prepare := m.prepare
	m.prepare = func(params []byte) (prepared, error) {
		p, err := prepare(params)
		p.slow, p.exclusive = true, true
		return p, err
	}
	return m
}

func (c *conn) environmentInfo(*session.Attachment, *wire.NoParams) (wire.EnvironmentInfo, error) {
	return c.server.info, nil
}

func (c *conn) environmentStatus(*session.Attachment, *wire.NoParams) (wire.StatusResult, error) {
	return wire.StatusResult{Status: "ready"}, nil
}

func (c *conn) startProcess(a *session.Attachment, r *rpc.Request, p *wire.StartParams, done func()) {
	defer done()
	process, err := a.Session.StartProcess(p)
	if err != nil {
		c.fail(r, err)
		return
	}
	r.Reply(wire.StartResult{ProcessID: process.ID, SandboxType: process.SandboxType()})
	a.StartAnswered(process)
}

func (c *conn) writeInput(a *session.Attachment, r *rpc.Request, p *wire.WriteParams, done func()) {
	a.Session.Write(p, func(status string, err error) {
		defer done()
		switch {
		case err == nil:
			r.Reply(wire.WriteResult{Status: status})
		case wireError(err).Code == wire.CodeInternal: // the system's reason is of no use to the client
			c.fail(r, wire.Errorf(wire.CodeInternal, "failed to write to process stdin"))
		default:
			c.fail(r, err)
		}
	})
}

func (c *conn) interrupt(a *session.Attachment, p *wire.SignalParams) (wire.Empty, error) {
	return wire.Empty{}, signalError(a.Session.Signal(p.ProcessID, syscall.SIGINT))
}

func (c *conn) signal(a *session.Attachment, p *wire.SignalAnyParams) (wire.Empty, error) {
	s, err := c.sessionOf(a, p.SessionID)
	if err != nil {
		return wire.Empty{}, err
	}
	sig, err := signalNumber(string(p.Signal))
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, signalError(s.Signal(p.ProcessID, sig))
}

func signalError(err error) error {
	if err != nil {
		return wire.Errorf(wire.CodeInternal, "failed to signal process: %v", err)
	}
	return nil
}

// sessionOf is the session that a public id names; without one, the client's own.
func (c *conn) sessionOf(a *session.Attachment, public *string) (*session.Session, error) {
	if public == nil {
		return a.Session, nil
	}
	return c.server.sessions.ByPublicID(*public)
}

func (c *conn) terminate(a *session.Attachment, p *wire.ProcessParams) (wire.TerminateResult, error) {
	return wire.TerminateResult{Running: a.Session.Terminate(p.ProcessID)}, nil
}

func (c *conn) resize(a *session.Attachment, p *wire.ResizeParams) (wire.Empty, error) {
	return wire.Empty{}, a.Session.Resize(p.ProcessID, p.Rows, p.Cols)
}

func (c *conn) closeStdin(a *session.Attachment, p *wire.ProcessParams) (wire.Empty, error) {
	return wire.Empty{}, a.Session.CloseStdin(p.ProcessID)
}

func (c *conn) listProcesses(a *session.Attachment, p *wire.ListParams) (wire.ListResult, error) {
	sessions := c.server.sessions.All()
	if p.SessionID != nil {
		s, err := c.server.sessions.ByPublicID(*p.SessionID)
		if err != nil {
			return wire.ListResult{}, err
		}
		sessions = []*session.Session{s}
	}
	list := []wire.ProcessInfo{}
	for _, s := range sessions {
		list = append(list, s.Processes()...)
	}
	slices.SortStableFunc(list, func(x, y wire.ProcessInfo) int {
		return cmp.Or(cmp.Compare(x.StartedAtMs, y.StartedAtMs), cmp.Compare(x.ProcessID, y.ProcessID))
	})
	return wire.ListResult{Processes: list}, nil
}

func (c *conn) metadata(_ *session.Attachment, p *wire.MetadataParams) (wire.MetadataResult, error) {
	path, err := nativePath(p.Path, p.Sandbox)
	if err != nil {
		return wire.MetadataResult{}, err
	}
	return fsrpc.Metadata(path, p.FollowSymlinks == nil || *p.FollowSymlinks)
}

// nativePath is where a filesystem request goes. One that is to be confined is
// refused.
func nativePath(uri wire.PathURI, sandbox *wire.Sandbox) (string, error) {
	path, err := uri.Native()
	if err != nil {
		return "", wire.Errorf(wire.CodeInvalidRequest, "%v", err)
	}
	if sandbox != nil && !sandbox.Disabled() {
		return "", &fsrpc.Error{Err: fsrpc.ErrSandbox}
	}
	return path, nil
}

func (c *conn) listSessions(*session.Attachment, *wire.NoParams) (wire.SessionListResult, error) {
	return wire.SessionListResult{Sessions: c.server.sessions.List()}, nil
}
