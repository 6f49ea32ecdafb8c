package client

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/websocket"
)

// An AttemptError is a session that could not be opened.
type AttemptError struct {
	Server string // its address, or the command that leads to it
	Err    error
}

func (e *AttemptError) Error() string {
	cause := e.Err
	if lost, ok := isLost(cause); ok {
		if cause = lost.cause; cause == nil {
			cause = errors.New("it ended the connection at once; it may not be a tether server")
		}
	}
	return "cannot connect to " + e.Server + ": " + connectionText(cause)
}

func (e *AttemptError) Unwrap() error { return e.Err }

// A DialError is a connection that could not be made. Its text calls the server "there"
// and "it".
type DialError struct {
	Address string
	Err     error
}

func (e *DialError) Unwrap() error { return e.Err }

func (e *DialError) Error() string {
	scheme, rest, _ := strings.Cut(e.Address, "://")
	onSocket := scheme == "unix"
	if proxy, ok := errors.AsType[*proxyError](e.Err); ok {
		return proxy.Error()
	}
	switch {
	case errors.Is(e.Err, errSpeaksTLS):
		return "that port speaks TLS; use wss://" + rest
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "no server listens there"
	case onSocket && errors.Is(e.Err, fs.ErrNotExist):
		return "no server listens there: the socket does not exist"
	case onSocket && errors.Is(e.Err, fs.ErrPermission):
		return "permission denied: the socket is for the user who runs the server"
	case errors.Is(e.Err, io.EOF), errors.Is(e.Err, io.ErrUnexpectedEOF):
		return "it ended the connection without an answer; it may not be a tether server"
	case errors.Is(e.Err, websocket.ErrNotHTTP):
		return "its answer is not HTTP/1.1; it is not a tether server"
	}
	if text := certificateText(e.Err); text != "" {
		return text
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](e.Err); ok {
		return "that port does not speak TLS; use ws://" + rest
	}
	if d, ok := errors.AsType[*net.DNSError](e.Err); ok {
		if d.IsNotFound {
			return "there is no host called " + d.Name
		}
		return "the name " + d.Name + " cannot be looked up: " + d.Err
	}
	return connectionText(e.Err)
}

// certificateText says what is wrong with a certificate, the server's or ours; empty:
// nothing is.
func certificateText(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is not signed by an authority that is trusted here"
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		names := e.Certificate.DNSNames
		for _, ip := range e.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return "its certificate is not for " + e.Host + " but for " + cmp.Or(strings.Join(names, ", "), "no name")
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate cannot be verified: " + strings.TrimPrefix(e.Err.Error(), "x509: ")
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" { // an alert of TLS
		alert := strings.TrimPrefix(e.Err.Error(), "tls: ")
		if alert == "certificate required" {
			return "it requires a certificate of the client"
		}
		if strings.Contains(alert, "certificate") {
			return "it refuses the certificate of this client: " + alert
		}
		return "it refuses the TLS connection: " + alert
	}
	return ""
}

// An UpgradeError is a server that answered, but not with a connection. Its text calls
// the server "it".
type UpgradeError struct {
	URL    string
	Status int    // of HTTP
	Text   string // the server's text
}

func (e *UpgradeError) Error() string {
	switch {
	case e.Status == 401 && strings.HasPrefix(e.Text, "missing "):
		return "it requires a token"
	case e.Status == 401 && strings.HasPrefix(e.Text, "expired "):
		return "the token has expired"
	case e.Status == 401 && strings.HasSuffix(e.Text, "not valid yet"):
		return "the token is not valid yet"
	case e.Status == 401 && strings.HasSuffix(e.Text, " mismatch"):
		return "it refuses the token: issuer or audience is not the one that it expects"
	case e.Status == 401 && strings.HasPrefix(e.Text, "the token "):
		return "it refuses the token: " + e.Text
	case e.Status == 401:
		return "it refuses the token"
	case e.Status == 403 && e.Text != "":
		return "it refuses this client: " + e.Text
	case e.Status == 404, e.Status < 400:
		return fmt.Sprintf("there is a web server, but no tether server (HTTP status %d)", e.Status)
	case e.Text != "":
		return fmt.Sprintf("it refuses the connection (HTTP status %d): %s", e.Status, e.Text)
	}
	return fmt.Sprintf("it refuses the connection (HTTP status %d)", e.Status)
}

// refused reports whether trying again is unlikely to help.
func (e *UpgradeError) refused() bool {
	return e.Status == 400 || e.Status == 401 || e.Status == 403 || e.Status == 404
}

// A CommandError is a transport command that has ended, or could not be started.
type CommandError struct {
	Name string // of the program
	Err  error  // usually an *exec.ExitError
	Said string // the last line that it wrote to its standard error; may be empty

	refusal bool // it cannot succeed later either
}

func (e *CommandError) Error() string {
	if errors.Is(e.Err, errSpawn) {
		return fmt.Sprintf("`%s` %v", e.Name, e.Err)
	}
	text := fmt.Sprintf("`%s` has ended (%v)", e.Name, e.Err)
	if e.Said != "" {
		text += ": " + e.Said
	}
	return text
}

func (e *CommandError) Unwrap() error { return e.Err }

// connectionText is the text of a connection's error for people. It leaves out the system
// call and the addresses, which the message around it has.
func connectionText(err error) string {
	switch err.(type) {
	case *AttemptError, *DialError, *CommandError, *SessionError:
		return err.Error()
	}
	if e, ok := errors.AsType[*rpc.CloseError](err); ok {
		if strings.HasPrefix(e.Reason, "not a message: ") {
			return "the server sent something that is not a message of the protocol"
		}
		return "the server does not keep to the protocol: " + e.Reason
	}
	e, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return err.Error()
	}
	if e.Timeout() {
		return "no answer"
	}
	if s, ok := errors.AsType[*os.SyscallError](e.Err); ok {
		return s.Err.Error()
	}
	return e.Err.Error()
}
