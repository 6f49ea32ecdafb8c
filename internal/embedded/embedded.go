// Package embedded runs a server inside a program, for that program alone.
// Connections are pairs of sockets without a name, so no other process can connect.
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
// program that does not read soon blocks the command, as a pipe does. It is more than a
// client leaves unacknowledged, which is 32 pieces of up to 64 KiB.
const spool = 4 << 20

// URL is the URL that a client uses for the server. Connections are made with
// [Server.Connect].
const URL = "ws://localhost"

// A Server has no address: no other process can connect to it, including confined
// commands that it has started.
type Server struct {
	connect func(context.Context) (net.Conn, error)
	close   func() error
}

// Start starts a server. The limits of cfg for output are ignored. ctx limits the start only.
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

// Connect opens a connection. It is for the client option of the same name.
func (s *Server) Connect(ctx context.Context) (net.Conn, error) { return s.connect(ctx) }

// Close ends the server and everything that it has started.
func (s *Server) Close() error { return s.close() }
