package main

import (
	"context"
	"errors"
	"io"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
)

// An executor is a server that ends with what it serves.
type executor struct{ server *server.Server }

func newExecutor(cfg server.Config) (executor, error) {
	cfg.Subreaper = true
	s, err := server.New(cfg)
	return executor{s}, err
}

// Serve serves WebSocket clients until ctx ends and everything is shut down.
func (e executor) Serve(ctx context.Context, l *listen.Listener) error {
	return errors.Join(e.server.Serve(ctx, l), e.server.Close())
}

// ServeStdio serves one client until it leaves or ctx ends.
func (e executor) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return errors.Join(e.server.ServeStdio(ctx, in, out), e.server.Close())
}
