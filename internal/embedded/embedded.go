// Package embedded runs a server inside of a program, for that program alone.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/tetherexec/tether/internal/server"
)

// spool is how much output is held for the program before a command has to wait: a
// reader who does not read holds it up soon, as a pipe does. It is more than a client
// leaves unacknowledged, which is 32 pieces of up to 64 KiB.
const spool = 4 << 20

// A Server listens on a socket that nobody but this user can reach.
type Server struct {
	URL   string
	close func() error
}

// Start starts a server. What cfg says about where to listen and how much output to
// hold is ignored. The context bounds the start only.
func Start(ctx context.Context, cfg server.Config) (*Server, error) {
	dir, err := os.MkdirTemp("", "tether-embedded-") // for nobody but this user
	if err != nil {
		return nil, fmt.Errorf("no place for a socket: %w", err)
	}
	cfg.Listen = "unix://" + filepath.Join(dir, "s")
	cfg.SpoolLimit, cfg.Retain = spool, spool
	l, err := server.Open(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s, err := server.New(cfg)
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.RemoveAll(dir))
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Serve(serving, l) }() // close waits for it
	return &Server{URL: l.URL, close: sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-done, s.Close(), os.RemoveAll(dir))
	})}, nil
}

// Close ends the server with all that it has started.
func (s *Server) Close() error { return s.close() }
