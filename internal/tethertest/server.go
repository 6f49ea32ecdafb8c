package tethertest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
)

// A Server is a tether server in this process, with a state directory of its
// own.
type Server struct {
	URL      string
	StateDir string

	t    testing.TB
	stop func()
}

// Front, if set, stands between the clients and each server that StartServer, StartServerAt or StartServerOn starts: it serves clients with
// a listener of the given settings, and returns its URL. stop ends what it has started. Tests of clients run through a gateway so, see
// package fleettest.
var Front func(t testing.TB, s *server.Server, on listen.Config) (url string, stop func())

// StartServer serves WebSocket clients on loopback until the test ends. It ignores the state directory of cfg.
func StartServer(t testing.TB, cfg server.Config) *Server {
	t.Helper()
	return StartServerAt(t, listen.DefaultURL, cfg)
}

// StartServerAt is StartServer at a URL of listen.Config.
func StartServerAt(t testing.TB, url string, cfg server.Config) *Server {
	t.Helper()
	return StartServerOn(t, listen.Config{URL: url}, cfg)
}

// StartServerOn is StartServer with a listener of the given settings.
func StartServerOn(t testing.TB, on listen.Config, cfg server.Config) *Server {
	t.Helper()
	cfg.StateDir = t.TempDir()
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatalf("server: %v", err)
	}
	front := Front
	if front == nil {
		front = serve
	}
	url, stop := front(t, srv, on)
	s := &Server{URL: url, StateDir: cfg.StateDir, t: t}
	s.stop = sync.OnceFunc(func() {
		stop()
		if err := srv.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		s.checkState()
	})
	t.Cleanup(s.Stop)
	return s
}

// serve serves clients directly.
func serve(t testing.TB, srv *server.Server, on listen.Config) (url string, stop func()) {
	t.Helper()
	l, err := listen.Open(context.Background(), on)
	if err != nil {
		t.Fatalf("server: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { // ends with ctx
		if err := srv.Serve(ctx, l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.URL, func() {
		cancel()
		serving.Wait()
	}
}

// Stop ends the server and everything that it started. It is an error if
// anything stays in the state directory.
func (s *Server) Stop() { s.stop() }

func (s *Server) checkState() {
	left, err := filepath.Glob(filepath.Join(s.StateDir, "server-*"))
	if err != nil || len(left) > 0 {
		s.t.Errorf("the state directory still holds %v (%v)", left, err)
	}
}

// Spools counts the spool files that the server's processes hold open. They
// have no name, so they are looked for among the open files of this process.
func (s *Server) Spools() int {
	n := 0
	for _, target := range OpenFiles() {
		if dir, err := filepath.Rel(s.StateDir, target); err == nil && strings.HasPrefix(dir, "server-") && filepath.Base(dir) != "lock" {
			n++
		}
	}
	return n
}

// StartStdio serves one client on a pair of pipes and returns that client. The
// test's cleanup ends both.
func StartStdio(t testing.TB, cfg server.Config) *Client {
	t.Helper()
	cfg.StateDir = t.TempDir()
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatalf("server: %v", err)
	}
	in, toServer := pipe(t)
	fromServer, out := pipe(t)
	c := NewLines(t, fromServer, toServer)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { // ends with ctx or the client
		if err := srv.ServeStdio(ctx, in, out); err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		serving.Wait()
		if err := srv.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}
