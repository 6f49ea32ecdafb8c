package main

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
)

// An mcpExecutor is what stands behind an MCP command: a session with an executor, and
// another one when that is lost. Make it with newMCPExecutor.
type mcpExecutor struct {
	serverFlags
	cwd    string
	keep   lifetime
	label  string // of the sessions
	stderr io.Writer

	sockets bool // those of the user's programs are open to confined commands here
	tells   bool // why the executor cannot be reached; else the caller of session does

	ctx    context.Context // of attempts to open a session; ends with attend
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // attempts

	mu      sync.Mutex
	conn    *connection // the newest
	attempt *mcpAttempt // under way; nil: none
	told    string      // about the last attempt that failed
	left    bool
}

// An mcpAttempt to open a session is shared by all requests that wait for it.
type mcpAttempt struct {
	done chan struct{} // closed when the rest is set
	conn *connection
	err  error
}

func newMCPExecutor(label string) mcpExecutor { return mcpExecutor{label: label} }

// define adds the flags of the server. otherwise is what happens without an address,
// kept what is kept while there is no connection.
func (e *mcpExecutor) define(fs *pflag.FlagSet, otherwise, kept string) {
	e.defineServer(fs, otherwise)
	fs.Var(&e.keep, "keep", "how long the executor is asked to keep "+kept+" while there is no\nconnection (default 10m)")
	group(fs, "Server", "keep")
}

// attend does something with an executor, and then ends the session and all that runs in
// it. An executor on this machine must be there at once. One that was named is connected
// to when it is needed, and tried again then if it is out of reach: an MCP client starts
// its servers once, often before the network is there. A signal ends the context; its
// number is the exit code if do fails then.
func (e *mcpExecutor) attend(ctx context.Context, do func(context.Context) error) (err error) {
	defer brokenPipeIsError()() // then the client has left
	ctx, stop := untilSignal(ctx)
	defer stop()
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	defer e.cancel(nil)
	if err := e.check(); err != nil {
		return err
	}
	defer func() {
		if cerr := e.leave(); err == nil {
			err = cerr
		}
	}()
	if !e.isRemote() {
		if _, err := e.session(e.ctx); err != nil {
			return orSignal(e.ctx, err)
		}
	}
	return orSignal(e.ctx, do(e.ctx))
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

// dir is where commands start in a session.
func (e *mcpExecutor) dir(c *client.Client) (string, error) {
	conn := &connection{Client: c, place: inProcess}
	if e.isRemote() {
		conn.place = atAddress
	}
	return (&launch{cwd: e.cwd}).dir(conn)
}

// where names the machine of the executor to models, without what could be a secret.
func (e *mcpExecutor) where() string {
	a, named, err := e.address()
	if err != nil || !named {
		return "this machine"
	}
	text := cmp.Or(e.url, os.Getenv(envURL))
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

// client returns the session to use, and another one when that is lost.
func (e *mcpExecutor) client(ctx context.Context) (*client.Client, error) {
	conn, err := e.session(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Client, nil
}

// session returns the session to use. If there is none, one attempt is made to open one,
// and all requests that ask meanwhile share its outcome. The context bounds the waiting,
// not the attempt: a request that cannot wait for ssh does not end it.
func (e *mcpExecutor) session(ctx context.Context) (*connection, error) {
	e.mu.Lock()
	if e.left {
		e.mu.Unlock()
		return nil, client.ErrClosed
	}
	if e.conn != nil && e.conn.Status().State != client.Failed {
		defer e.mu.Unlock()
		return e.conn, nil
	}
	a := e.attempt
	if a == nil {
		a = &mcpAttempt{done: make(chan struct{})}
		e.attempt = a
		e.tasks.Go(func() { e.try(a) })
	}
	e.mu.Unlock()
	select {
	case <-a.done:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// try is one attempt to open a session.
func (e *mcpExecutor) try(a *mcpAttempt) {
	defer close(a.done)
	e.mu.Lock()
	old := e.conn
	e.conn = nil
	e.mu.Unlock()
	if old != nil {
		old.end() // it has failed; an embedded server ends with it
	}
	o := client.Options{TTL: keepAttended, Label: e.label}
	if e.keep > 0 {
		o.TTL = time.Duration(e.keep)
	}
	status := terminal.NewStatusLine(e.stderr, e.quiet)
	a.conn, a.err = e.dial(e.ctx, status, o, embeddedServer(e.sockets))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attempt, e.conn = nil, a.conn
	if e.tells && a.err != nil && e.isRemote() && e.ctx.Err() == nil && e.told != a.err.Error() {
		e.told = a.err.Error()
		status.Note(terminal.Printable(e.told) + "; the next request tries again")
	}
}

// leave ends the session with all that runs in it. There is no other after this.
func (e *mcpExecutor) leave() error {
	e.mu.Lock()
	e.left = true
	e.mu.Unlock()
	e.cancel(nil)
	e.tasks.Wait()
	if e.conn == nil {
		return nil
	}
	return e.conn.end()
}
