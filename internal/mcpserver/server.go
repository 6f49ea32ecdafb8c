// Package mcpserver offers the tools of unified exec, and files, to MCP clients.
//
// A Server serves any number of MCP sessions over one executor. Each MCP session has
// commands of its own: they end with it, and no other sees them.
package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/unifiedexec"
	"github.com/tetherexec/tether/wire"
)

// outputBudget is how much output a result has, in tokens: what calls get that do not
// say how much they want.
const outputBudget = 10000

// maxMessage bounds what a client may send at once, in bytes: a file to write, say.
const maxMessage = 16 << 20

// protocolVersions are those in which a server keeps a session and may ask the client
// something in the middle of a call: commands and approvals need both.
var protocolVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Config is what a server offers.
type Config struct {
	// Client returns the session with the executor, and another one when that is lost.
	Client func(context.Context) (*client.Client, error)

	Local   bool            // the executor is on this machine
	Where   string          // the machine of the executor, in words for models; empty: "the executor"
	Cwd     string          // where commands start, and the workspace, as in unifiedexec.Environment
	Sandbox *wire.Sandbox   // for commands and files; nil: none
	Network *client.Network // what commands in the sandbox reach; nil: as the sandbox says
	Policy  unifiedexec.Policy
	NoLogin bool // shells are login shells only if a call asks for one

	HTTPIdle time.Duration // after which a silent HTTP client has left; 12 hours if zero
	Silence  time.Duration // after which a silent call is said to go on; 10 s if zero

	Version string
	Log     *slog.Logger // nil: nothing is logged
}

// asks reports whether there is something that the user can be asked to allow, as far as
// it depends on the server.
func (c *Config) asks() bool { return c.Policy.Mode != unifiedexec.Never && c.Sandbox != nil }

// hides reports whether the sandbox hides files: then no approval lets a command leave it.
func (c *Config) hides() bool {
	return c.Sandbox != nil && slices.ContainsFunc(c.Sandbox.Permissions.FileSystem.Entries, func(e wire.SandboxEntry) bool { return e.Access == wire.AccessDeny })
}

// A Server has the tools. It is safe for concurrent use.
type Server struct {
	config Config
	mcp    *mcp.Server

	mu     sync.Mutex
	desks  map[*mcp.ServerSession]*desk
	closed bool
	tasks  sync.WaitGroup // one for each desk
}

// New makes a server.
func New(c Config) (*Server, error) {
	if c.Client == nil {
		return nil, errors.New("an MCP server needs an executor")
	}
	if c.Sandbox != nil && c.Sandbox.Disabled() {
		c.Sandbox = nil
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.HTTPIdle, c.Silence = cmp.Or(c.HTTPIdle, httpIdle), cmp.Or(c.Silence, progressSilence)
	s := &Server{config: c, desks: make(map[*mcp.ServerSession]*desk)}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "tether", Title: "tether", Version: cmp.Or(c.Version, "dev")}, &mcp.ServerOptions{
		Capabilities:              &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SupportedProtocolVersions: protocolVersions,
		Logger:                    c.Log,
	})
	s.mcp.AddReceivingMiddleware(s.tells)
	if err := s.addTools(); err != nil {
		return nil, err
	}
	return s, nil
}

// Serve serves one client on a pair of streams until it leaves or the context ends. Its
// commands end with it; calls under way are answered, if that does not take long.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.serve(ctx, &farewell{&mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: maxMessage}, cancel})
}

// serve serves one client.
func (s *Server) serve(ctx context.Context, t mcp.Transport) error {
	session, err := s.mcp.Connect(context.WithoutCancel(ctx), t, nil)
	if err != nil {
		return err
	}
	// A connection ends when its calls have: those of a client that is gone are ended.
	stop := context.AfterFunc(ctx, func() {
		s.dismiss(session)
		session.Close()
	})
	err = session.Wait()
	if !stop() || s.isClosed() {
		err = nil // it was to end
	}
	s.dismiss(session)
	return err
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close ends all sessions with all that runs in them. The executor's session stays.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	desks := maps.Clone(s.desks)
	s.mu.Unlock()
	var ending sync.WaitGroup
	for session, d := range desks {
		ending.Go(func() { // none waits for the commands of another
			d.close() // the end of the session waits for its calls
			session.Close()
		})
	}
	ending.Wait()
	for session := range s.mcp.Sessions() {
		session.Close()
	}
	s.tasks.Wait()
	return nil
}

// errClosed means that the server or the client has left.
var errClosed = errors.New("the MCP server is closed")

// desk returns what belongs to an MCP session. It ends with that.
func (s *Server) desk(session *mcp.ServerSession) (*desk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if d := s.desks[session]; d != nil {
		return d, nil
	}
	d, err := newDesk(&s.config, s.config.asks() && asksForms(session.InitializeParams()))
	if err != nil {
		return nil, err
	}
	s.desks[session] = d
	s.tasks.Go(func() { // ends with the session
		session.Wait()
		s.dismiss(session)
		s.mu.Lock()
		delete(s.desks, session)
		s.mu.Unlock()
	})
	return d, nil
}

// dismiss ends the commands of an MCP session.
func (s *Server) dismiss(session *mcp.ServerSession) {
	s.mu.Lock()
	d := s.desks[session]
	s.mu.Unlock()
	if d != nil {
		d.close()
	}
}
