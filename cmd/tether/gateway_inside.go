//go:build fleet

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/bus"
	"github.com/tetherexec/tether/internal/fleet/gateway"
)

// run runs a gateway until a signal ends it.
func (f *gatewayFlags) run(ctx context.Context, stdout *os.File, stderr io.Writer) error {
	cfg, err := f.listen.config(stderr)
	if err != nil {
		return err
	}
	warnReadable(stderr, f.bus.creds)
	ctx, caught, stop, restore := serverSignals(ctx)
	defer restore()
	defer stop()
	<-caught
	l, err := openListener(ctx, cfg)
	switch {
	case err != nil:
		return err
	case l == nil:
		return errors.New("a gateway needs a `--listen` URL that is not stdio")
	}
	defer l.Close()
	log := f.log.open(stderr)
	conn, err := bus.Connect(ctx, f.bus.config("gateway", log))
	if err != nil {
		return err
	}
	defer conn.Close()
	g, err := gateway.New(gateway.Config{Bus: conn, Window: int(f.window), Log: log})
	if err != nil {
		return fmt.Errorf("open the gateway: %w", err)
	}
	if err := printURL(stdout, l); err != nil {
		return err
	}
	return untilStopped(ctx, stop, func() error { return g.Serve(ctx, l) })
}

// config are the settings of a connection to the hub for a gateway or an operator.
func (f *busFlags) config(name string, log *slog.Logger) bus.Config {
	return bus.Config{URL: f.url, Credentials: f.creds, CAFile: f.ca, Name: name, Inbox: fleet.GatewayInbox, Log: log}
}
