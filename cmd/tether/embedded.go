package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/server"
)

// embeddedSpool is how much output an embedded server holds for us before the command
// has to wait: a reader who does not read holds it up soon, as a pipe does. It is more
// than the client leaves unacknowledged, which is 32 pieces of up to 64 KiB.
const embeddedSpool = 4 << 20

// embeddedServer starts a server in this process, for us alone. It ends, with all that
// it has started, when the returned function is called.
func embeddedServer(ctx context.Context) (a address, p place, stop func() error, err error) {
	if err := proc.ResetInherited(); err != nil {
		return a, p, nil, fmt.Errorf("prepare for children: %w", err)
	}
	dir, err := os.MkdirTemp("", "tether-run-") // for nobody but this user
	if err != nil {
		return a, p, nil, fmt.Errorf("no place for a socket: %w", err)
	}
	cfg := server.Config{
		Listen: "unix://" + filepath.Join(dir, "s"), Version: versionText(),
		SpoolLimit: embeddedSpool, Retain: embeddedSpool,
	}
	l, err := server.Open(ctx, cfg)
	if err != nil {
		return a, p, nil, errors.Join(err, os.RemoveAll(dir))
	}
	s, err := newExecutor(cfg)
	if err != nil {
		return a, p, nil, errors.Join(err, l.Close(), os.RemoveAll(dir))
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Serve(serving, l) }() // waited for below
	return address{url: l.URL}, inProcess, func() error {
		cancel()
		return errors.Join(<-done, os.RemoveAll(dir))
	}, nil
}
