//go:build mcp || fleet || !split

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tetherexec/tether/internal/otlp"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/span"
)

// hasOTLP: this program can export spans.
const hasOTLP = true

// spanPatience is how long the end of a server waits for the collector to take the last spans.
const spanPatience = 2 * time.Second

func (f *otlpFlags) export(cfg *server.Config) (close func(), err error) {
	exporter, err := otlp.New(otlp.Config{Endpoint: f.endpoint, Version: cfg.Version, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flagOTLP, err)
	}
	cfg.Spans = span.Tracer{Recorder: exporter}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), spanPatience)
		defer cancel()
		exporter.Close(ctx)
	}, nil
}
