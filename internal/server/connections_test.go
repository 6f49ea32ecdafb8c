package server_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// serveHere serves a server whose inside the test can reach until the test ends.
func serveHere(t *testing.T) (s *server.Server, url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cfg := server.Config{StateDir: t.TempDir()}
	l, err := listen.Open(ctx, cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = server.New(cfg); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-served, s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, l.URL
}

// One client too many is told so; when there is room again the next is served.
func TestConnectionsAreBounded(t *testing.T) {
	s, url := serveHere(t)
	server.SetConnections(s, server.MaxConnections)
	ws, err := tethertest.DialWS(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	_, _, err = ws.Read()
	if told, ok := errors.AsType[*tethertest.CloseError](err); !ok || told.Code != rpc.CloseTryAgain || told.Reason != "limit reached: 20000 connections" {
		t.Errorf("told %v", err)
	}

	server.SetConnections(s, 0)
	c, err := tethertest.DialRef(t.Context(), url, tethertest.RefOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
