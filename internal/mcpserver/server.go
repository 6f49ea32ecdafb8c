// Package mcpserver is the MCP server of `tether mcp`: the tools of unified exec, and files.
//
// A Server serves any number of MCP sessions over one executor. Each MCP session has
// commands of its own: they end with it, and no other session sees them.
//
// Where a change belongs:
//
//	server.go    Server: its Config, the MCP sessions, the end
//	session.go   mcpSession: the commands and ids of one MCP session; paths on the executor
//	tools.go     the table of tools, and their schemas
//	exec.go      exec_command, write_stdin, kill_session, list_sessions
//	files.go     read_file, write_file, list_dir
//	search.go    search_output
//	describe.go  the texts that tell the model where commands run and what they may do
//	approve.go   questions to the user
//	progress.go  output as progress notifications
//	http.go      clients over HTTP
//	drain.go     answers to calls that run when the client closes standard input
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

// outputBudget is how much output a result has, in tokens, if a call does not say.
const outputBudget = 10000

// maxMessage bounds a message of a client, in bytes, for example with a file to write.
const maxMessage = 16 << 20

// protocolVersions are the versions of MCP that have sessions, and in which a server may ask the
// client in the middle of a call. Commands need sessions, approvals need questions.
var protocolVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Config is what a server offers.
type Config struct {
	// Client returns the session with the executor, and a new one when that is lost.
	Client func(context.Context) (*client.Client, error)

	Local   bool            // the executor is on this machine
	Where   string          // the machine of the executor, in words for models; empty: "the executor"
	Cwd     string          // where commands start, and the workspace, as in unifiedexec.Environment
	Sandbox *wire.Sandbox   // for commands and files; nil: none
	Network *client.Network // hosts that commands in the sandbox reach; nil: the sandbox alone decides
	// KeepHost remembers a host that the user allows for good, as in unifiedexec.Environment; nil: nothing does.
	KeepHost func(host string) error

	Limits  *wire.Limits // of each command; nil: those of the executor, if any
	Policy  unifiedexec.Policy
	NoLogin bool // shells are login shells only if a call asks for one

	HTTPIdle time.Duration // after this time without a request the session of an HTTP client ends; 12 hours if zero
	Silence  time.Duration // after this time without output a call reports that it still runs; 10 s if zero

	Version string
	Log     *slog.Logger // nil: nothing is logged
}

// asks reports whether the options of the server allow questions to the user.
func (c *Config) asks() bool { return c.Policy.Mode != unifiedexec.Never && c.Sandbox != nil }

// asksHosts reports whether the user is asked about hosts that no pattern of the network matches, while the command waits.
func (c *Config) asksHosts() bool {
	return c.Network != nil && c.Policy.Mode == unifiedexec.Granular && c.Policy.SandboxApproval
}

// hides reports whether the sandbox hides files: then no approval lets a command leave it.
func (c *Config) hides() bool {
	return c.Sandbox != nil && slices.ContainsFunc(c.Sandbox.Permissions.FileSystem.Entries, func(e wire.SandboxEntry) bool { return e.Access == wire.AccessDeny })
}

// A Server has the tools. It is safe for concurrent use.
type Server struct {
	config     Config
	mcp        *mcp.Server
	leaveGrace time.Duration

	mu          sync.Mutex
	mcpSessions map[*mcp.ServerSession]*mcpSession
	closed      bool
	tasks       sync.WaitGroup // one for each mcpSession
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
	s := &Server{config: c, leaveGrace: leaveGrace, mcpSessions: make(map[*mcp.ServerSession]*mcpSession)}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "tether", Title: "tether", Version: cmp.Or(c.Version, "dev")}, &mcp.ServerOptions{
		Capabilities:              &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SupportedProtocolVersions: protocolVersions,
		Logger:                    c.Log,
	})
	s.mcp.AddReceivingMiddleware(s.describeTools)
	if err := s.addTools(); err != nil {
		return nil, err
	}
	return s, nil
}

// Serve serves one client on a pair of streams until it leaves or the context ends. Its
// commands end with it; running calls are answered if that takes no longer than leaveGrace.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.serve(ctx, &drainingTransport{&mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: maxMessage}, s.leaveGrace, cancel})
}

// serve serves one client.
func (s *Server) serve(ctx context.Context, t mcp.Transport) error {
	session, err := s.mcp.Connect(context.WithoutCancel(ctx), t, nil)
	if err != nil {
		return err
	}
	// The connection ends only after its calls, so the calls of a client that is gone are ended.
	stop := context.AfterFunc(ctx, func() {
		s.endCommands(session)
		session.Close()
	})
	err = session.Wait()
	if !stop() || s.isClosed() {
		err = nil // the end was requested
	}
	s.endCommands(session)
	return err
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close ends all MCP sessions and their commands. The session with the executor stays open.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	mcpSessions := maps.Clone(s.mcpSessions)
	s.mu.Unlock()
	var ending sync.WaitGroup
	for session, d := range mcpSessions {
		ending.Go(func() { // the sessions end at the same time
			d.close() // ends the calls, for which session.Close waits
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

// errClosed means that the server was closed.
var errClosed = errors.New("the MCP server is closed")

// sessionOf returns the mcpSession of an MCP session, with which it ends.
func (s *Server) sessionOf(session *mcp.ServerSession) (*mcpSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if d := s.mcpSessions[session]; d != nil {
		return d, nil
	}
	d, err := newMCPSession(&s.config, s.config.asks() && asksForms(session.InitializeParams()))
	if err != nil {
		return nil, err
	}
	s.mcpSessions[session] = d
	s.tasks.Go(func() { // ends with the session
		session.Wait()
		s.endCommands(session)
		s.mu.Lock()
		delete(s.mcpSessions, session)
		s.mu.Unlock()
	})
	return d, nil
}

// endCommands ends the calls and the commands of an MCP session.
func (s *Server) endCommands(session *mcp.ServerSession) {
	s.mu.Lock()
	d := s.mcpSessions[session]
	s.mu.Unlock()
	if d != nil {
		d.close()
	}
}
