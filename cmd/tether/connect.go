package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/homeserver"
	"github.com/tetherexec/tether/internal/settings"
	"github.com/tetherexec/tether/internal/terminal"
)

// Environment variables that name the server and its token.
const (
	envURL   = "TETHER_URL"
	envToken = "TETHER_TOKEN"
)

// maxToken bounds a token file.
const maxToken = 64 << 10

// endPatience is how long the request that ends a session may take.
const endPatience = 2 * time.Second

// serverFlags say which server to use.
type serverFlags struct {
	url       string
	server    string // the name of a server in the configuration file
	found     bool   // url is from the configuration file
	tokenFile string
	tls       tlsFlags
	quiet     bool
	deploy    deployFlags
	wait      lifetime // how long to try a server that cannot be reached yet
}

// define adds the flags. otherwise is the part of the help that says what happens without an address.
func (f *serverFlags) define(fs *pflag.FlagSet, otherwise string) {
	f.defineServer(fs, otherwise)
	fs.Var(&f.wait, "wait", "if the server named by --url cannot be reached yet, keep trying for\nthis long (default: try once)")
	group(fs, "Server", "wait")
}

// defineServer is define without --wait.
func (f *serverFlags) defineServer(fs *pflag.FlagSet, otherwise string) {
	f.defineTarget(fs, otherwise)
	f.deploy.define(fs)
}

// defineTarget is defineServer without the flags about a missing tether.
func (f *serverFlags) defineTarget(fs *pflag.FlagSet, otherwise string) {
	fs.StringVar(&f.url, "url", "", "`URL` of the server: ws://, wss://, unix://PATH, ssh://[USER@]HOST, or\nexec:COMMAND for one whose input and output speak the protocol\n(default $TETHER_URL, else the server of the configuration file;\nwithout them, "+otherwise+")")
	fs.StringVar(&f.server, flagServer, "", "`NAME` of a server in the configuration file, instead of --url")
	fs.StringVar(&f.tokenFile, "token-file", "", "`PATH` of a file with the token for the server (default: the token\nin $TETHER_TOKEN)")
	f.tls.define(fs)
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print no messages about the connection")
	group(fs, "Server", "url", flagServer, "token-file", "tls-ca", "tls-cert", "tls-key", "quiet")
}

// address returns the address of the server. named is false if the user named no server.
func (f *serverFlags) address() (a address, named bool, err error) {
	text, err := f.find()
	if text == "" || err != nil {
		return address{}, false, err
	}
	if a, err = parseAddress(text); err != nil {
		return a, true, usageError{err}
	}
	return a, true, nil
}

// find returns the URL of the server: that of --url, --server or $TETHER_URL, or of the default server in the configuration file. A
// server of the file comes with its other settings, unless there are flags for them.
func (f *serverFlags) find() (string, error) {
	switch env := os.Getenv(envURL); {
	case f.url != "" && f.server != "" && !f.found:
		return "", usageError{fmt.Errorf("--url and --%s exclude each other", flagServer)}
	case f.url != "":
		return f.url, nil
	case f.server == "" && env != "":
		return env, nil
	}
	file, err := settings.Find()
	switch {
	case err != nil:
		return "", err
	case file == nil && f.server != "":
		return "", fmt.Errorf("--%s %s: there is no configuration file; name one with $%s", flagServer, f.server, settings.Variable)
	case file == nil || f.server == "" && file.Default == "":
		return "", nil
	}
	s, err := file.Named(cmp.Or(f.server, file.Default))
	if err != nil {
		return "", err
	}
	f.url, f.found = s.URL, true
	f.tokenFile = cmp.Or(f.tokenFile, s.TokenFile)
	f.tls.ca, f.tls.cert, f.tls.key = cmp.Or(f.tls.ca, s.TLSCA), cmp.Or(f.tls.cert, s.TLSCert), cmp.Or(f.tls.key, s.TLSKey)
	return f.url, nil
}

func (f *serverFlags) token() (string, error) {
	if f.tokenFile == "" {
		return os.Getenv(envToken), nil
	}
	file, err := os.Open(f.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file %s: %w", f.tokenFile, cause(err))
	}
	defer file.Close()
	warnReadable(os.Stderr, f.tokenFile)
	text, err := io.ReadAll(io.LimitReader(file, maxToken))
	if err != nil {
		return "", fmt.Errorf("--token-file %s: %w", f.tokenFile, cause(err))
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("--token-file %s: the file is empty", f.tokenFile)
	}
	return token, nil
}

// A serverKind says how long a server lives, compared with this program.
type serverKind uint8

const (
	kindNamed    serverKind = iota // the user has named it
	kindUser                       // the user's own in the background; it outlives this program
	kindEmbedded                   // in this process; it ends with it
)

// A target is a server to connect to.
type target struct {
	address
	kind serverKind
	stop func() error // ends an embedded server; may be nil
}

// A connection is a session with a server. end or leave must be called.
type connection struct {
	*client.Client
	flags   *serverFlags // name the server
	server  target
	options client.Options
	status  *terminal.StatusLine // may be nil
	silent  []string             // hosts of a fleet that have not answered
	ended   sync.Once
}

// errNoServer means that no server was named, and that the user's own is not running.
var errNoServer = errors.New("no server is running; name one with --url or TETHER_URL, or start something with `tether run --detach`")

// serverFlagError means that a client command got a flag that only a server can obey.
func serverFlagError(flag string) error {
	return usageError{fmt.Errorf("--%s is only for commands without a server; for a server, give the flag to `tether serve`", flag)}
}

// clientName is how the sessions of this program are listed.
const clientName = "tether"

// dial opens a session. If no server was named, otherwise returns the server.
func (f *serverFlags) dial(ctx context.Context, status *terminal.StatusLine, o client.Options, otherwise func(context.Context) (target, error)) (*connection, error) {
	a, isNamed, err := f.address()
	if err != nil {
		return nil, err
	}
	if f.wait > 0 && !isNamed {
		return nil, usageError{errors.New("--wait needs a server to wait for; name one with --url or " + envURL)}
	}
	if isNamed {
		return f.dialNamed(ctx, a, status, o)
	}
	server, err := otherwise(ctx)
	if err != nil {
		return nil, err
	}
	return f.dialServer(ctx, server, status, o)
}

// dialNamed is dial for a server that the user has named.
func (f *serverFlags) dialNamed(ctx context.Context, a address, status *terminal.StatusLine, o client.Options) (*connection, error) {
	o, err := f.options(o)
	if err != nil {
		return nil, err
	}
	return f.dialServer(ctx, target{address: a, kind: kindNamed}, status, o)
}

func (f *serverFlags) dialServer(ctx context.Context, server target, status *terminal.StatusLine, o client.Options) (*connection, error) {
	c := &connection{flags: f, server: server, status: status}
	o.Name = clientName
	if status != nil {
		o.OnState = status.Tell
	}
	if err := c.open(ctx, o); err != nil {
		return nil, f.advise(c.server.address, err)
	}
	return c, nil
}

// options adds what the flags say about the server that the user has named.
func (f *serverFlags) options(o client.Options) (_ client.Options, err error) {
	o.Wait = time.Duration(f.wait)
	if o.Token, err = f.token(); err != nil {
		return o, err
	}
	o.TLS, err = f.tls.config()
	return o, err
}

// open opens the session. If it fails, an embedded server ends.
func (c *connection) open(ctx context.Context, o client.Options) (err error) {
	a := c.server.address
	c.options = o
	if a.command != nil {
		c.Client, err = c.dialCommand(ctx, a, o)
	} else {
		o.Connect = a.connect
		c.Client, err = client.Dial(ctx, a.url, o)
	}
	if err != nil && c.server.stop != nil {
		c.server.stop()
	}
	return err
}

// homeServer returns a function that finds the user's own server, or starts it if start is set.
func homeServer(start bool) func(context.Context) (target, error) {
	return func(ctx context.Context) (target, error) {
		url, err := homeserver.Ensure(ctx, homeserver.Options{NoStart: !start})
		if errors.Is(err, homeserver.ErrNoServer) {
			err = errNoServer
		}
		return target{address: address{url: url}, kind: kindUser}, err
	}
}

// end ends the session with all that runs in it, and an embedded server.
func (c *connection) end() (err error) {
	c.ended.Do(func() {
		c.endSession()
		err = c.close()
	})
	return err
}

// endSession ends the session with all that runs in it. If the request does not arrive, the session expires.
func (c *connection) endSession() {
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	if c.server.kind != kindEmbedded && c.Status().State == client.Connected {
		c.Client.End(ctx)
	}
}

// leave closes the connection and keeps the session on the server.
func (c *connection) leave() (err error) {
	c.ended.Do(func() { err = c.close() })
	return err
}

func (c *connection) close() error {
	err := c.Client.Close()
	if c.status != nil {
		c.status.Close()
	}
	if c.server.stop != nil {
		err = errors.Join(err, c.server.stop())
	}
	return err
}

// withSession opens a session with a server that runs already, for do, and ends it afterwards.
func (f *serverFlags) withSession(ctx context.Context, stderr io.Writer, do func(*connection) error) error {
	conn, err := f.dial(ctx, terminal.NewStatusLine(stderr, f.quiet), client.Options{}, homeServer(false))
	if err != nil {
		return err
	}
	defer conn.end()
	return do(conn)
}

// withObserver is withSession for a command that starts nothing; see dialObserver.
func (f *serverFlags) withObserver(ctx context.Context, stderr io.Writer, do func(*connection) error) error {
	conn, err := f.dialObserver(ctx, terminal.NewStatusLine(stderr, f.quiet), client.Options{})
	if err != nil {
		return err
	}
	defer conn.end()
	return do(conn)
}
