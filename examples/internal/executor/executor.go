// Package executor finds the examples something to talk to.
package executor

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
)

// Start returns the URL of a server: that in TETHER_URL or, without it, that of a new
// one in this process. The caller stops it.
func Start(ctx context.Context) (url string, stop func(), err error) {
	if url := os.Getenv("TETHER_URL"); url != "" {
		return url, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "tether-example-")
	if err != nil {
		return "", nil, err
	}
	url, end, err := serve(ctx, server.Config{StateDir: dir})
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, fmt.Errorf("start a server: %w", err)
	}
	return url, func() { end(); os.RemoveAll(dir) }, nil
}

func serve(ctx context.Context, cfg server.Config) (url string, stop func(), err error) {
	s, err := server.New(cfg)
	if err != nil {
		return "", nil, err
	}
	l, err := listen.Open(ctx, listen.Config{})
	if err != nil {
		s.Close()
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { // ends with stop
		if err := s.Serve(ctx, l); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
		}
	})
	return l.URL, func() { cancel(); serving.Wait(); s.Close() }, nil
}
