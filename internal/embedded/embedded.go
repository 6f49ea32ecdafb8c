// Package embedded runs a server inside of a program, for that program alone.
package embedded

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
)

// spool is how much output is held for the program before a command has to wait: a
// program that does not read holds the command up soon, as a pipe does. It is more than a
// client leaves unacknowledged, which is 32 pieces of up to 64 KiB.
const spool = 4 << 20

// URL is what a client calls the server. Connections are made with [Server.Connect].
const URL = "ws://localhost"

// A Server has no address: no other process can connect to it, confined commands that it
// has started included.
type Server struct {
	connect func(context.Context) (net.Conn, error)
	close   func() error
}

// Start starts a server. What cfg says about how much output to hold is ignored. The context bounds the start only.
func Start(ctx context.Context, cfg server.Config) (*Server, error) {
	cfg.SpoolLimit, cfg.Retain = spool, spool
	s, err := server.New(cfg)
	if err != nil {
		return nil, err
	}
	l, connect := listen.OpenInProcess()
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Serve(serving, l) }() // close waits for it
	return &Server{connect: connect, close: sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-done, s.Close())
	})}, nil
}

// Connect opens a connection. It is for the option of the same name of a client.
func (s *Server) Connect(ctx context.Context) (net.Conn, error) { return s.connect(ctx) }

// Close ends the server with all that it has started.
func (s *Server) Close() error { return s.close() }
