//go:build mcp || fleet || !split

package main

import (
	"context"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
)

// An mcpExecutor is the executor behind an MCP command: a session, and a new one when that
// is lost.
type mcpExecutor struct {
	serverFlags
	cwd    string
	keep   lifetime
	label  string // of the sessions
	stderr io.Writer

	machine machineFlags
	limits  limitFlags // of each command
	reports bool       // open prints why the executor cannot be reached; else the caller of client does

	sessions *client.Lazy // set by use
	conn     *connection  // of the newest session; only open and release use it
	told     string       // the error of the last failed attempt; only open uses it
}

// define adds the flags of the server. The help says otherwise about a missing address, and
// that kept survives lost connections.
func (e *mcpExecutor) define(fs *pflag.FlagSet, otherwise, kept string) {
	e.defineServer(fs, otherwise)
	fs.Var(&e.keep, "keep", "how long the executor keeps "+kept+" without a connection\n(default 10m)")
	group(fs, "Server", "keep")
}

// use calls do with an executor, and then ends the session and all that runs in it.
// An executor on this machine must work at once. The connection to a named server is opened by
// the first request, and tried again with the next if that fails: an MCP client starts its
// servers once, often before the network is up. A signal ends the context; it decides about the
// exit code if do fails then.
func (e *mcpExecutor) use(ctx context.Context, do func(context.Context) error) (err error) {
	defer brokenPipeIsError()() // EPIPE means that the client has left
	ctx, stop := untilSignal(ctx)
	defer stop()
	if err := e.check(); err != nil {
		return err
	}
	e.sessions = client.NewLazyFunc(e.open, e.release)
	defer func() {
		if cerr := e.sessions.Close(); err == nil {
			err = cerr
		}
	}()
	if !e.isRemote() {
		if _, err := e.client(ctx); err != nil {
			return orSignal(ctx, err)
		}
	}
	return orSignal(ctx, do(ctx))
}

// isRemote reports whether a server was named.
func (e *mcpExecutor) isRemote() bool {
	_, named, _ := e.address()
	return named
}

// check refuses flags with which no attempt can succeed.
func (e *mcpExecutor) check() error {
	if _, _, err := e.address(); err != nil {
		return err
	}
	if !e.isRemote() {
		return nil
	}
	if _, err := e.token(); err != nil {
		return err
	}
	_, err := e.tls.config()
	return err
}

// dir returns the directory where commands start in a session. Without a named server it does not use c.
func (e *mcpExecutor) dir(c *client.Client) (string, error) {
	if e.isRemote() {
		return startDir(e.cwd, false, kindNamed, c.Info)
	}
	return startDir(e.cwd, false, kindEmbedded, nil)
}

// where returns the machine of the executor as models are told it, without passwords.
func (e *mcpExecutor) where() string {
	a, named, err := e.address()
	if err != nil || !named {
		return "this machine"
	}
	text, _ := e.find() // address has not failed
	if strings.HasPrefix(text, schemeExec) {
		return "the machine that " + schemeExec + a.command[0] + " leads to"
	}
	u, err := url.Parse(text)
	if err != nil {
		return "another machine"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery, u.Fragment = "", ""
	return "the machine at " + u.String()
}

// client returns the session to use, or a new one if it is lost.
func (e *mcpExecutor) client(ctx context.Context) (*client.Client, error) { return e.sessions.Get(ctx) }

// open is one attempt to open a session.
func (e *mcpExecutor) open(ctx context.Context) (*client.Client, error) {
	o := client.Options{TTL: keepAttended, Label: e.label}
	if e.keep > 0 {
		o.TTL = time.Duration(e.keep)
	}
	status := terminal.NewStatusLine(e.stderr, e.quiet)
	conn, err := e.dial(ctx, status, o, embeddedServer(e.machine, e.limits.given()))
	if err != nil {
		if e.reports && e.isRemote() && ctx.Err() == nil && e.told != err.Error() {
			e.told = err.Error()
			status.Note(terminal.Printable(e.told) + "; the next request tries again")
		}
		return nil, err
	}
	e.conn = conn
	return conn.Client, nil
}

// release ends the newest session with all that runs in it; an embedded server ends with it.
func (e *mcpExecutor) release(*client.Client) error { return e.conn.end() }
