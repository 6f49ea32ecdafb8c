package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/environ"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/observe"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/internal/statedir"
	"github.com/tetherexec/tether/internal/web"
	"github.com/tetherexec/tether/wire"
)

// A Server owns sessions and the connections to them.
type Server struct {
	config   Config
	log      *slog.Logger
	info     wire.EnvironmentInfo
	env      []string // the environment of this program
	http     *web.Client
	state    *statedir.Dir
	procs    *proc.Supervisor
	usage    *observe.Meter
	ports    *ports.Room
	confiner *confine.Confiner
	sessions *session.Table
	pool     *outlog.Pool
	memory   *rpc.Memory // limits the messages of all connections

	limiting sync.Mutex // guards limits
	limits   limits     // those in force

	audit     *audit.Log // nil: nothing is recorded
	counters  counters
	decisions launch.NetworkDecisions
	idle      *listen.Idle
	conns     *listen.Connections
	listener  atomic.Pointer[listen.Listener] // nil: the server listens nowhere, or not yet

	sessionEnd atomic.Pointer[func(id string)] // see OnSessionEnd; nil: nothing is told

	working  atomic.Int64 // requests that may take time
	looking  sync.Mutex   // one search for listeners at a time
	draining drainState

	closing context.Context // ends when Close begins
	close   context.CancelFunc
	tasks   sync.WaitGroup // afterStart; Close waits for it
}

// New returns a server that is ready to serve.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	state, procs, err := cfg.state()
	if err != nil {
		return nil, err
	}
	cfg.StateDir = state.Shared
	env := os.Environ()
	s := &Server{config: cfg, log: cfg.Log, state: state, env: env, memory: rpc.NewMemory(), ports: ports.NewRoom(cfg.Forward, cfg.ForwardReverse)}
	s.closing, s.close = context.WithCancel(context.Background())
	s.draining.leave, s.draining.conns = make(chan struct{}), map[*conn]struct{}{}
	s.idle = listen.NewIdle(cfg.IdleExit, func() bool { return s.sessions.Len() > 0 })
	s.conns = listen.NewConnections(maxConnections, s.idle, cfg.Log)
	if s.audit, err = audit.Open(cfg.Audit); err != nil {
		return nil, errors.Join(err, state.Abandon())
	}
	s.count()
	host := environ.ThisHost(env)
	s.info = host.Info(executorVersion(cfg.Version), capabilities())
	s.procs = proc.New(procs)
	if err := cfg.checkLimits(s.procs); err != nil {
		s.procs.Close()
		return nil, errors.Join(err, s.audit.Close(), state.Abandon())
	}
	s.usage = observe.NewMeter(s.procs)
	uploads, err := upload.OpenJournal(state.Uploads())
	if err != nil {
		s.procs.Close()
		return nil, errors.Join(err, s.audit.Close(), state.Abandon())
	}
	s.confiner = confine.New(confine.Config{
		Procs: s.procs, Shared: cfg.StateDir, Own: state.Own, Private: cfg.private, UserSockets: cfg.UserSockets, Backend: cfg.Backend, Log: cfg.Log,
		Earlier: cfg.Kept != nil && !cfg.Kept.First,
	})
	s.http = web.New(web.Config{Env: env, Log: cfg.Log})
	s.limits = cfg.limits()
	pool := outlog.NewPool(state.Own, cfg.SpoolTotal)
	s.pool = pool
	if state.Durable() {
		pool.KeepNames()
	}
	sessions := session.Config{
		Terms: s.limits.terms, Pool: pool,
		Launch: launch.Config{
			Procs: s.procs, Confiner: s.confiner, Env: env, Shell: host.LoginShell, Own: s.acceptsAt, Decisions: &s.decisions,
			Limits: func() proc.Limits { return s.limitsNow().each }, Total: cfg.TotalLimits,
		},
		Uploads: uploads, Ports: s.ports, Log: cfg.Log, Removed: s.idle.Released, Events: s.events(),
	}
	if cfg.Kept != nil {
		sessions.Kept = &session.Kept{Arena: cfg.Kept.Arena, Keeper: cfg.Kept.Keeper, Program: cfg.Version, Probation: cfg.Kept.Probation}
	}
	s.sessions = session.NewTable(sessions)
	if err := s.restore(uploads, pool); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// quietTime leaves the processors to the first client, which often connects as soon as
// the server has printed its address.
const quietTime = 100 * time.Millisecond

// afterStart does what the first client need not wait for. Commands that come earlier do the
// first two steps themselves.
func (s *Server) afterStart() {
	select {
	case <-time.After(quietTime):
		s.procs.Prepare()
		s.confiner.Begin()
	case <-s.closing.Done():
	}
	s.state.Sweep(s.log)
}

// Close ends the connections that Serve has not ended, all sessions and everything that they started.
func (s *Server) Close() error {
	s.close()
	s.conns.Stop(errStopping)
	s.tasks.Wait()
	s.sessions.Close()
	s.http.Close()
	err := s.confiner.Close()
	s.procs.Close()
	err = errors.Join(err, s.audit.Close(), s.state.Close())
	sweeper, unswept := s.confiner.StartSweeper()
	if sweeper != 0 && s.config.Kept != nil {
		err = errors.Join(err, s.config.Kept.Leave(sweeper))
	}
	return errors.Join(err, unswept)
}

// Serve accepts WebSocket connections until ctx ends, or until the server has been
// idle for Config.IdleExit. Then it ends the connections, also those of ServeStream, with their sessions and
// returns nil. Detached sessions outlive it until Close. After Drain it returns ErrDrained. Serve is called once.
func (s *Server) Serve(ctx context.Context, l *listen.Listener) error {
	s.tasks.Go(s.afterStart)
	s.listener.Store(l)
	err := l.Serve(ctx, listen.Handler{
		Serve: func(ctx context.Context, stream *rpc.WebSocket, client listen.Client) {
			s.serveWebSocket(ctx, stream, Origin{Client: client})
		},
		Stopping: errStopping, Connections: s.conns, Looking: true, Pages: []listen.Page{listen.Metrics(s.writeMetrics)}, Log: s.log, Leave: s.draining.leave, Reloaded: s.recordReload,
	})
	if errors.Is(err, listen.ErrLeft) {
		s.conns.Refuse(errReplaced)
		s.leave()
		return ErrDrained
	}
	return err
}

// An Origin says where a connection comes from.
type Origin struct {
	Client listen.Client
	Host   string // the name that the server has in the fleet through which the client has come; "": it has come directly

	// Attached is called when the client has opened or resumed a session, before it is told so. The connection waits for it. May be nil.
	Attached func(sessionID string, ttl time.Duration, resumed bool)
}

// OnSessionEnd lets told be called with the id of each session that has ended from now on. It must return at once.
func (s *Server) OnSessionEnd(told func(id string)) { s.sessionEnd.Store(&told) }

// ServeStream serves one more connection, which has not come through the listener. It counts and ends like those of the listener:
// with Serve, Drain or Close. If ctx ends before that, the connection is lost, and its session can be resumed. ServeStream returns when the connection
// has ended, and reports whether the client's session, if it has got one, is over and cannot be resumed.
func (s *Server) ServeStream(ctx context.Context, stream *rpc.WebSocket, from Origin) (sessionOver bool) {
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	from.Client.Via = listen.ViaFleet
	s.conns.Serve(stream, func(serving context.Context) { sessionOver = s.serveWebSocket(serving, stream, from) })
	return sessionOver
}

func (s *Server) serveWebSocket(ctx context.Context, stream *rpc.WebSocket, from Origin) (sessionOver bool) {
	from.Client.Query = "" // not needed, and may be large
	return s.serve(ctx, stream, from, fmt.Sprintf("failed to parse websocket JSON-RPC message from exec-server websocket %s: ", from.Client.Peer))
}

// acceptsAt reports whether this server listens on an address.
func (s *Server) acceptsAt(a netip.AddrPort) bool {
	l := s.listener.Load()
	return l != nil && l.Accepts(a)
}

// errStopping is the reason of all connections that end with the server. Sessions end
// too, and clients learn that there is nothing to resume.
var errStopping = &rpc.CloseError{Code: rpc.CloseGoingAway, Reason: wire.ReasonStopping}

// lastMessage is the last message to a client: a goodbye, if the server ends and the client
// has asked for one. The close frame says the same, but not all transports have close
// frames.
func (c *conn) lastMessage(why *rpc.CloseError) []byte {
	if why != errStopping || !c.handshake.goodbye.Load() {
		return nil
	}
	msg, err := wire.AppendNotification(nil, wire.NoteGoodbye, wire.Empty{})
	if err != nil {
		c.log.Error("goodbye cannot be encoded", "err", err)
	}
	return msg
}

// maxConnections limits the connections. Each session has at most one. The others
// observe, or have not sent initialize yet.
const maxConnections = 2 * session.MaxSessions

// ServeStdio serves one connection on in and out and returns when it has ended or
// ctx has. No client can resume its session, so the session ends too.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	s.tasks.Go(s.afterStart)
	serving, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { stop(errStopping) })()
	s.serve(serving, rpc.NewLines(in, out), Origin{Client: listen.Client{Peer: "stdio", Via: "stdio"}}, "failed to parse JSON-RPC message from exec-server stdio: ")
	s.sessions.Close()
	return nil
}
