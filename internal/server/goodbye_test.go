package server_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// asksForGoodbye returns parameters of initialize that ask for a goodbye.
func asksForGoodbye(resume any) map[string]any {
	return map[string]any{"clientName": "test", "resumeSessionId": resume, "tether": map[string]any{"goodbye": true}}
}

// wantGoodbye checks the last message to a client when the server ends.
func wantGoodbye(t *testing.T, c *tethertest.Client, want bool) {
	t.Helper()
	err := c.Ended()
	m, none := c.AwaitFor(0, func(tethertest.Message) bool { return true })
	if got := string(m.Raw); want && got != `{"method":"tether/goodbye","params":{}}` || !want && none == nil {
		t.Errorf("the last message is %q, want a goodbye: %t", got, want)
	}
	if _, none := c.AwaitFor(0, func(tethertest.Message) bool { return true }); none == nil {
		t.Error("more messages came")
	}
	t.Logf("the connection ended with %v", err)
}

// A server that ends sends a goodbye to the clients that have asked for it on their
// current connection. Other clients get only what the reference would send. The close
// frame has the same reason for all.
func TestGoodbye(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	plain, asked, resumed := tethertest.Connect(t, s.URL), tethertest.Dial(t, s.URL), tethertest.Dial(t, s.URL)
	asked.HandshakeWith(asksForGoodbye(nil))
	left := tethertest.Dial(t, s.URL)
	id := left.HandshakeWith(asksForGoodbye(nil)).SessionID
	left.Close()
	resumed.HandshakeWith(asksForGoodbye(id))
	again := tethertest.Dial(t, s.URL) // a resumed session whose current client has not asked
	other := tethertest.Dial(t, s.URL)
	id = other.HandshakeWith(asksForGoodbye(nil)).SessionID
	other.Close()
	again.Handshake(id)
	early := tethertest.Dial(t, s.URL) // has sent no initialize yet
	for _, c := range []*tethertest.Client{plain, asked, resumed, again} {
		c.Must("environment/status", nil, nil)
	}
	s.Stop()
	for name, c := range map[string]*tethertest.Client{"plain": plain, "asked": asked, "resumed": resumed, "again": again, "early": early} {
		t.Run(name, func(t *testing.T) {
			wantGoodbye(t, c, name == "asked" || name == "resumed")
			if err := c.Ended(); !strings.Contains(err.Error(), wire.ReasonStopping) {
				t.Errorf("the close frame: %v", err)
			}
		})
	}
}

// A server on standard input and output sends a goodbye too.
func TestGoodbyeOnStdio(t *testing.T) {
	t.Parallel()
	for name, params := range map[string]map[string]any{"asked": asksForGoodbye(nil), "plain": {"clientName": "test"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := server.New(server.Config{StateDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			in, toServer := io.Pipe()
			fromServer, out := io.Pipe()
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- s.ServeStdio(ctx, in, out) }()
			c := tethertest.NewLines(t, fromServer, toServer)
			c.HandshakeWith(params)
			c.Must("environment/status", nil, nil)
			stop()
			wantGoodbye(t, c, name == "asked")
			if err := <-served; err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
