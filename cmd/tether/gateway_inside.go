//go:build fleet

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tetherexec/tether/internal/fleet/gateway"
)

// run runs a gateway until a signal ends it.
func (f *gatewayFlags) run(ctx context.Context, stdout *os.File, stderr io.Writer) error {
	prepareRelay()
	cfg, err := f.listen.config(stderr)
	if err != nil {
		return err
	}
	if cfg.Console, err = f.door.config(); err != nil {
		return err
	}
	if done, err := f.file.done(stdout); done || err != nil {
		return err
	}
	if _, err := readCreds(f.bus.creds, roleGateway, stderr); err != nil {
		return err
	}
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
	conn, err := connect(ctx, f.bus.config(roleGateway, log))
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
