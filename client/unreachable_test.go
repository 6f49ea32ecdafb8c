package client_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
	"github.com/tetherexec/tether/internal/websocket"
	"github.com/tetherexec/tether/wire"
)

// The errors of a connection say what happened, without terms of the protocol, of system calls
// and of libraries.
func TestConnectionErrorsInPlainWords(t *testing.T) {
	t.Parallel()
	dial := func(address string, err error) error {
		return &client.AttemptError{Server: address, Err: &client.DialError{Address: address, Err: err}}
	}
	refused := func(status int, text string) error {
		return &client.AttemptError{Server: "ws://h", Err: &client.UpgradeError{URL: "ws://h", Status: status, Text: text}}
	}
	call := func(name string, number syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(name, number)}
	}
	for want, err := range map[string]error{
		"cannot connect to ws://h: no server listens there":                                                  dial("ws://h", call("connect", syscall.ECONNREFUSED)),
		"cannot connect to ws://h: no route to host":                                                         dial("ws://h", call("connect", syscall.EHOSTUNREACH)),
		"cannot connect to ws://h: no answer":                                                                dial("ws://h", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}),
		"cannot connect to unix:///s: no server listens there: the socket does not exist":                    dial("unix:///s", call("connect", syscall.ENOENT)),
		"cannot connect to unix:///s: permission denied: the socket is for the user who runs the server":     dial("unix:///s", call("connect", syscall.EACCES)),
		"cannot connect to ws://h: there is no host called h":                                                dial("ws://h", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}}),
		"cannot connect to ws://h: it ended the connection without an answer; it may not be a tether server": dial("ws://h", io.EOF),
		"cannot connect to ws://h: its answer is not HTTP/1.1; it is not a tether server":                    dial("ws://h", websocket.ErrNotHTTP),
		"cannot connect to wss://h: it refuses the certificate of this client: bad certificate":              dial("wss://h", &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}),
		"cannot connect to wss://h: it requires a certificate of the client":                                 dial("wss://h", &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}),
		"cannot connect to ws://h: it requires a token":                                                      refused(401, "missing websocket bearer token"),
		"cannot connect to ws://h: it refuses the token":                                                     refused(401, "invalid websocket bearer token"),
		"cannot connect to ws://h: it refuses the token: the token has no sub":                               refused(401, "the token has no sub"),
		"cannot connect to ws://h: the token has expired":                                                    refused(401, "expired websocket jwt"),
		"cannot connect to ws://h: the token is not valid yet":                                               refused(401, "websocket jwt is not valid yet"),
		"cannot connect to ws://h: it refuses the token: issuer or audience is not the one that it expects":  refused(401, "websocket jwt audience mismatch"),
		"cannot connect to ws://h: it refuses this client: you":                                              refused(403, "you"),
		"cannot connect to ws://h: there is a web server, but no tether server (HTTP status 404)":            refused(404, ""),
		"cannot connect to ws://h: it refuses the connection (HTTP status 503): busy":                        refused(503, "busy"),
		"cannot connect to ws://h: it refuses the connection (HTTP status 403)":                              refused(403, ""),
		"the command cannot be started: no such file or directory":                                           &client.ServerError{Method: wire.MethodProcessStart, Code: wire.CodeInternal, Message: "No such file or directory (os error 2)"},
		"the working directory /x does not exist":                                                            &client.ServerError{Method: wire.MethodProcessStart, Code: wire.CodeInternal, Message: `No such file or directory (os error 2): working directory "/x"`},
		"permission denied": &client.ServerError{Method: wire.MethodFsReadFile, Code: wire.CodeInvalidRequest, Message: "Permission denied (os error 13)"},
	} {
		if err.Error() != want {
			t.Errorf("%#v\nsays %s\nwant %s", err, err, want)
		}
	}
}

// The error of a server that accepts connections and does not answer.
func TestSilentServerInPlainWords(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	url := "ws://" + l.Addr().String()
	_, err = client.Dial(tethertest.Within(t), url, client.Options{ConnectTimeout: 50 * time.Millisecond})
	if want := "cannot connect to " + url + ": no connection after 50ms"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// The error of a ws:// address whose port expects TLS and answers with an alert.
func TestAlertOfTLS(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	wait := scripted.Play(t, func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Read(make([]byte, 4096))
		conn.Write([]byte("\x15\x03\x01\x00\x02\x02\x46"))
	})
	_, err = client.Dial(tethertest.Within(t), "ws://"+l.Addr().String(), client.Options{})
	wait()
	if want := "cannot connect to ws://" + l.Addr().String() + ": that port speaks TLS; use wss://" + l.Addr().String(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
