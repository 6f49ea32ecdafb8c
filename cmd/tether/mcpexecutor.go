package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
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

	turn chan struct{} // has a value while one uses what follows: who waits for it may give up
	conn *connection   // the newest
	left bool
}

func newMCPExecutor(label string) mcpExecutor {
	return mcpExecutor{label: label, turn: make(chan struct{}, 1)}
}

// define adds the flags of the server. otherwise is what happens without an address,
// kept what is kept while there is no connection.
func (e *mcpExecutor) define(fs *pflag.FlagSet, otherwise, kept string) {
	e.defineServer(fs, otherwise)
	fs.Var(&e.keep, "keep", "how long the executor is asked to keep "+kept+" while there is no\nconnection (default 10m)")
	group(fs, "Server", "keep")
}

// attend does something with an executor, and then ends the session and all that runs in
// it. dir is where commands start. A signal ends the context; its number is the exit code
// if do fails then.
func (e *mcpExecutor) attend(ctx context.Context, do func(ctx context.Context, conn *connection, dir string) error) (err error) {
	broken := make(chan os.Signal, 1) // a closed output is a client that has left
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer onSignal(cancel)()
	defer func() {
		if cerr := e.leave(); err == nil {
			err = cerr
		}
	}()
	conn, err := e.session(ctx)
	if err != nil {
		return orSignal(ctx, err)
	}
	dir, err := (&launch{cwd: e.cwd}).dir(conn)
	if err != nil {
		return err
	}
	return orSignal(ctx, do(ctx, conn, dir))
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

func (e *mcpExecutor) session(ctx context.Context) (*connection, error) {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if e.left {
		return nil, client.ErrClosed
	}
	if e.conn != nil {
		if e.conn.Status().State != client.Failed {
			return e.conn, nil
		}
		e.conn.end()
		e.conn = nil
	}
	o := client.Options{TTL: keepAttended, Label: e.label}
	if e.keep > 0 {
		o.TTL = time.Duration(e.keep)
	}
	conn, err := e.dial(ctx, newStatusLine(e.stderr, e.quiet), o, embeddedServer(e.sockets))
	if err == nil {
		e.conn = conn
	}
	return conn, err
}

// leave ends the session with all that runs in it. There is no other after this.
func (e *mcpExecutor) leave() error {
	e.turn <- struct{}{} // whoever dials has been told to end
	defer func() { <-e.turn }()
	e.left = true
	if e.conn == nil {
		return nil
	}
	return e.conn.end()
}

// A caught is a signal that ends us.
type caught struct{ syscall.Signal }

func (c caught) Error() string { return c.String() }

// onSignal ends the context with the first signal. The returned function undoes that.
func onSignal(cancel context.CancelCauseFunc) func() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, passedOn...)
	done, watching := make(chan struct{}), sync.WaitGroup{}
	watching.Go(func() {
		select {
		case s := <-signals:
			if number, ok := s.(syscall.Signal); ok {
				cancel(caught{number})
			}
		case <-done:
		}
	})
	return func() {
		signal.Stop(signals)
		close(done)
		watching.Wait()
	}
}

// untilSignal returns a context that ends with the first signal. The returned function
// undoes that, and ends the context.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	undo := onSignal(cancel)
	return ctx, sync.OnceFunc(func() {
		undo()
		cancel(nil)
	})
}

// orSignal is the exit code of a signal, if one was the reason of a failure.
func orSignal(ctx context.Context, err error) error {
	if c, ok := errors.AsType[caught](context.Cause(ctx)); ok && err != nil {
		return codedError{code: exitSignal + int(c.Signal)}
	}
	return err
}
