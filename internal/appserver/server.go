package appserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/codexhome"
	"github.com/tetherexec/tether/internal/environ"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// maxConnections limits the connections of a server.
const maxConnections = 1024

// Config configures a [Server]; the zero value is valid.
type Config struct {
	Env     []string // base environment of commands; nil: that of this program
	Version string   // version of the server; "": "dev"

	// Subreaper: see proc.Config.
	Subreaper bool

	// Earlier means that an earlier process of this server has died. Its control groups are removed.
	Earlier bool

	Log *slog.Logger // nil: nothing is logged
}

// A Server serves the process API.
type Server struct {
	env     []string
	shell   string // for terminals whose environment names none
	version string
	log     *slog.Logger
	hello   wire.AppInitializeResult // without the user agent
	noLocal bool                     // commands run on another executor
	procs   *proc.Supervisor
	pool    *outlog.Pool
	memory  *rpc.Memory // limits the messages of all connections

	// Fields, so that tests can use shorter times.
	drainTime    time.Duration
	stdinTimeout time.Duration
	maxCollected int64

	collected atomic.Int64 // bytes of output in memory, of all connections

	leave   chan struct{} // closed by Drain
	leaving sync.Once
}

// New returns a server that is ready to serve. Close ends everything that it
// started.
func New(cfg Config) (*Server, error) {
	s := &Server{env: cfg.Env, version: cfg.Version, log: cfg.Log,
		leave: make(chan struct{}), memory: rpc.NewMemory(), drainTime: drainTime, stdinTimeout: stdinTimeout, maxCollected: maxCollected}
	if s.env == nil {
		s.env = os.Environ()
	}
	if s.version == "" {
		s.version = "dev"
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	home, err := codexhome.Find(s.env)
	if err != nil {
		return nil, err
	}
	s.shell = environ.ThisHost(s.env).LoginShell
	s.hello = wire.AppInitializeResult{CodexHome: home.Codex, PlatformFamily: "unix", PlatformOS: runtime.GOOS}
	switch runtime.GOOS {
	case "windows":
		s.hello.PlatformFamily = "windows"
	case "darwin":
		s.hello.PlatformOS = "macos"
	}
	s.noLocal = executorNamed(s.env)
	s.procs = proc.New(proc.Config{Log: s.log, Subreaper: cfg.Subreaper})
	if cfg.Earlier {
		s.procs.Prepare()
	}
	s.pool = outlog.NewPool("", 0) // no log ever spools
	return s, nil
}

// executorNamed reports whether the environment says that commands run on another
// executor, or nowhere: the process API can only start them on this machine.
func executorNamed(env []string) bool {
	named := false
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "CODEX_EXEC_SERVER_URL="); ok {
			named = strings.TrimSpace(value) != ""
		}
	}
	return named
}

// Close kills everything that the server started. It is called when Serve has
// returned. The error is nil.
func (s *Server) Close() error {
	s.procs.Close()
	return nil
}

// Drain lets another process go on with the listening socket: Serve returns listen.ErrLeft. It does not wait for requests, because
// commands end with their connections anyway.
func (s *Server) Drain(time.Duration) { s.leaving.Do(func() { close(s.leave) }) }

// Check returns when the server can do something. It does not return if the server hangs.
func (s *Server) Check() { s.procs.Processes() }

// Serve accepts WebSocket connections until ctx ends, or until Drain. Then it ends them with
// everything that they started, and returns nil, or listen.ErrLeft.
func (s *Server) Serve(ctx context.Context, l *listen.Listener) error {
	err := l.Serve(ctx, listen.Handler{
		Serve: func(ctx context.Context, stream *rpc.WebSocket, client listen.Client) {
			stream.TextOnly()
			s.serve(ctx, stream, client.Peer)
		},
		Stopping: &rpc.CloseError{Code: rpc.CloseGoingAway, Reason: "server is shutting down"},
		Leave:    s.leave, Leaving: &rpc.CloseError{Code: rpc.CloseRestart, Reason: "server is being replaced"},
		Connections: listen.NewConnections(maxConnections, nil, s.log), AnyPath: true, Log: s.log,
	})
	if errors.Is(err, listen.ErrLeft) {
		s.procs.Close()
	}
	return err
}

// ServeStdio serves one client on in and out. It returns when the client has left
// or ctx ends, and everything that it started is gone.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) {
	lines := rpc.NewLines(in, out)
	lines.SkipInvalid()
	s.serve(ctx, lines, "stdio")
}
