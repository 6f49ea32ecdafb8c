// Package homeserver finds the server of this user on this machine, and starts it
// if there is none. It is for programs that need a server that outlives them: it
// runs in the background until it has been idle for a while.
//
// Where a change belongs: homeserver.go finds and starts the server; socket.go
// chooses the path of its socket; host_*.go has the system calls.
package homeserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/filelock"
)

// DefaultIdleExit is how long a started server runs without sessions and
// connections.
const DefaultIdleExit = 10 * time.Minute

const (
	// startLimit is how long a server may take until it listens.
	startLimit = 20 * time.Second
	// dialLimit is how long a socket of this machine may take to accept.
	dialLimit = 5 * time.Second
	// maxLog is the size above which a new server empties its log first.
	maxLog = 1 << 20
	// maxReason is how much of the log is quoted when a server does not start.
	maxReason = 2 << 10
)

// ErrNoServer means that no server is running, and that Options.NoStart is set.
var ErrNoServer = errors.New("no server is running")

// Options say which server to find. The zero value is the user's own server.
type Options struct {
	Socket   string        // path; "": DefaultSocket
	NoStart  bool          // only find it
	IdleExit time.Duration // of a server that is started; 0: DefaultIdleExit

	Program string   // the tether program; "": this one
	Env     []string // of a server that is started; nil: this program's
}

// Ensure returns the URL of a running server, and starts one if necessary.
// Concurrent callers get the same server. A started server does not end with the
// caller, nor with its terminal or login.
func Ensure(ctx context.Context, o Options) (url string, err error) {
	if err := o.complete(); err != nil {
		return "", err
	}
	url = "unix://" + o.Socket
	missing := o.find(ctx)
	switch {
	case missing == nil:
		return url, nil
	case o.NoStart:
		return "", fmt.Errorf("%w on %s", ErrNoServer, o.Socket)
	}
	unlock, err := o.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if o.find(ctx) == nil { // another caller was faster
		return url, nil
	}
	if err := o.start(ctx); err != nil && o.find(ctx) != nil {
		return "", err
	}
	return url, nil
}

// complete fills in defaults.
func (o *Options) complete() (err error) {
	if o.Socket == "" {
		if o.Socket, err = DefaultSocket(); err != nil {
			return err
		}
	}
	if o.Socket, err = filepath.Abs(o.Socket); err != nil {
		return err
	}
	if o.IdleExit <= 0 {
		o.IdleExit = DefaultIdleExit
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Program == "" {
		o.Program, err = os.Executable()
	}
	return err
}

// find returns nil if a server listens on the socket.
func (o *Options) find(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "unix", o.Socket)
	if err != nil {
		return err
	}
	return conn.Close()
}

// beside is the name of a file that belongs to the socket.
func (o *Options) beside(suffix string) string {
	return strings.TrimSuffix(o.Socket, ".sock") + suffix
}

// lock keeps other processes from starting a server meanwhile.
func (o *Options) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(o.Socket), 0o700); err != nil {
		return nil, fmt.Errorf("no directory for the server's socket: %w", err)
	}
	file, err := filelock.Lock(ctx, o.beside(".lock"))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("another process is starting a server: %w", err)
	case err != nil:
		return nil, fmt.Errorf("lock the start of a server: %w", err)
	}
	return func() { file.Close() }, nil
}

// start runs a server in the background and returns when it listens.
func (o *Options) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("it does not listen after %v", startLimit))
	defer cancel()
	log, begin, err := o.openLog()
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer log.Close()
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	process, err := o.spawn(theirs, log)
	theirs.Close()
	if err != nil {
		return fmt.Errorf("cannot start a server: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { ready.SetReadDeadline(time.Unix(1, 0)) })
	line, err := readLine(ready)
	stop()
	if err == nil && line != "" {
		return process.Release() // the server does not depend on this process any more
	}
	if why := context.Cause(ctx); why != nil {
		process.Kill()
		process.Wait()
		return fmt.Errorf("cannot start a server: %w; its log is %s", why, log.Name())
	}
	state, err := process.Wait() // it has closed its output without printing its URL
	if err != nil {
		return fmt.Errorf("cannot start a server: %w; its log is %s", err, log.Name())
	}
	return fmt.Errorf("cannot start a server: it ended with %v%s; its log is %s", state, logSince(log, begin), log.Name())
}

// spawn starts the program. It shares only its log and the pipe on which it prints
// its URL with this process.
func (o *Options) spawn(stdout, log *os.File) (*os.Process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	argv := []string{o.Program, "serve", "--listen", "unix://" + o.Socket, "--idle-exit", o.IdleExit.String(), "--log-level", "warn", "--log-format", "text", "--config-file="}
	return os.StartProcess(o.Program, argv, &os.ProcAttr{
		Dir: homeDir(), Env: withoutLogin(o.Env), Files: []*os.File{null, stdout, log}, Sys: detached(),
	})
}

// homeDir is the working directory of a server: the caller's directory may be on a
// disk that has to be unmounted later.
func homeDir() string {
	home, err := os.UserHomeDir()
	if err == nil {
		if info, err := os.Stat(home); err == nil && info.IsDir() {
			return home
		}
	}
	return string(filepath.Separator)
}

// withoutLogin returns the environment without the variables of the user's login
// connection, which ends before the server does.
func withoutLogin(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "SSH_AUTH_SOCK", "XDG_SESSION_ID", "XDG_SESSION_TYPE", "XDG_SESSION_CLASS":
		default:
			kept = append(kept, entry)
		}
	}
	return kept
}

// openLog opens the server's log for appending; a large log is emptied first.
func (o *Options) openLog() (log *os.File, begin int64, err error) {
	log, err = os.OpenFile(o.beside(".log"), os.O_CREATE|os.O_RDWR|os.O_APPEND|noFollow, 0o600)
	if err != nil {
		return nil, 0, err
	}
	info, err := log.Stat()
	if err == nil {
		begin = info.Size()
	}
	if begin > maxLog {
		begin, err = 0, log.Truncate(0)
	}
	if err != nil {
		log.Close()
		return nil, 0, err
	}
	return log, begin, nil
}

// logSince is the text in the log after begin, or the end of it if it is long.
func logSince(log *os.File, begin int64) string {
	info, err := log.Stat()
	if err != nil {
		return ""
	}
	begin = max(begin, info.Size()-maxReason)
	text := make([]byte, max(0, info.Size()-begin))
	n, _ := log.ReadAt(text, begin)
	words := strings.TrimPrefix(strings.TrimSpace(strings.ToValidUTF8(string(text[:n]), "")), "tether: ")
	if words == "" {
		return ""
	}
	return ": " + words
}

// readLine reads until the end of a line or of the file.
func readLine(f *os.File) (string, error) {
	var line []byte
	buf := make([]byte, 256)
	for {
		n, err := f.Read(buf)
		line = append(line, buf[:n]...)
		if text, _, ended := bytes.Cut(line, []byte("\n")); ended {
			return string(text), nil
		}
		if err != nil {
			return "", err
		}
	}
}
