package main

import (
	"context"
	"errors"
	"io"

	"github.com/tetherexec/tether/internal/server"
)

// newExecutor returns the server for cfg. It ends with what it serves.
func newExecutor(cfg server.Config) (executor, error) {
	cfg.Subreaper = true
	s, err := server.New(cfg)
	if err != nil {
		return nil, err
	}
	return closing{s}, nil
}

// closing closes a server when it has served.
type closing struct{ *server.Server }

func (c closing) Serve(ctx context.Context, l *server.Listener) error {
	return errors.Join(c.Server.Serve(ctx, l), c.Close())
}

func (c closing) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return errors.Join(c.Server.ServeStdio(ctx, in, out), c.Close())
}
