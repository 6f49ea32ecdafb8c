//go:build unix

package server_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A server that is replaced answers the reads that wait, tells its clients to come back, and leaves its socket to the
// next process.
func TestDrain(t *testing.T) {
	srv, err := server.New(server.Config{StateDir: t.TempDir(), ForwardReverse: ports.Loopback})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "t.sock")
	l, err := listen.Open(t.Context(), listen.Config{URL: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- srv.Serve(t.Context(), l) }() // ends with Drain
	c := tethertest.Dial(t, l.URL)
	c.Handshake("")
	c.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
	poll := c.Ask("process/read", map[string]any{"processId": "p", "waitMs": 60_000})
	listenAt(c, "l")
	accept := c.Ask(wire.MethodPortAccept, map[string]any{"listenerId": "l", "connectionId": "c", "limit": 100})
	c.Must("environment/status", nil, nil) // the read waits by now, and so does the accept
	begin := time.Now()
	srv.Drain(10 * time.Second)
	var answer tethertest.ReadAnswer
	if m := c.Answer(poll); json.Unmarshal(m.Result, &answer) != nil || len(answer.Chunks) > 0 || answer.Exited || answer.NextSeq != 1 {
		t.Errorf("the read that waits is answered with %s", m.Raw)
	}
	if m := c.Answer(accept); m.Error != nil || !strings.Contains(string(m.Result), `"peer":""`) {
		t.Errorf("the accept that waits is answered with %s", m.Raw)
	}
	if err := c.Ended(); err == nil || !strings.Contains(err.Error(), wire.ReasonReplaced) {
		t.Errorf("the connection ended with %v", err)
	}
	if err := <-served; !errors.Is(err, server.ErrDrained) {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := os.Stat(socket); err != nil {
		t.Errorf("the socket of the next process: %v", err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
}

// A server that is replaced serves other clients while it waits for a request that takes time.
func TestDrainServesMeanwhile(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, "")
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-answer
	}))
	defer web.Close()
	srv, err := server.New(server.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.Open(t.Context(), listen.Config{})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- srv.Serve(t.Context(), l) }() // ends with Drain
	c := tethertest.Dial(t, l.URL)
	c.Handshake("")
	slow := c.Ask(wire.MethodHTTPRequest, map[string]any{"method": "GET", "url": web.URL, "requestId": "r", "headers": []any{}})
	<-asked
	drained := make(chan struct{})
	go func() { // ends with the request
		srv.Drain(time.Hour)
		close(drained)
	}()
	other := tethertest.Dial(t, l.URL)
	other.Handshake("")
	other.Must("environment/status", nil, nil)
	close(answer)
	if m := c.Answer(slow); m.Error != nil {
		t.Errorf("answered %s", m.Raw)
	}
	<-drained
	for _, c := range []*tethertest.Client{c, other} {
		if err := c.Ended(); err == nil || !strings.Contains(err.Error(), wire.ReasonReplaced) {
			t.Errorf("the connection ended with %v", err)
		}
	}
	if err := <-served; !errors.Is(err, server.ErrDrained) {
		t.Errorf("Serve: %v", err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
}
