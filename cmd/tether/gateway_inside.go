//go:build fleet

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/fleet/gateway"
)

func (f *gatewayFlags) fileFlags() *configFlags { return &f.file }

// settings implements reloadable.
func (f *gatewayFlags) settings(stderr io.Writer) (s *serverSettings, err error) {
	s = new(serverSettings)
	s.level = f.log.minimum()
	if s.listen, err = f.listen.config(stderr); err == nil {
		s.listen.Console, err = f.door.config()
	}
	return s, err
}

// run runs a gateway until a signal ends it.
func (f *gatewayFlags) run(cmd *cobra.Command, stdout *os.File) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	prepareRelay()
	set, err := f.settings(stderr)
	if err != nil {
		return err
	}
	cfg := set.listen
	r := newReloader(cmd, nameGateway, f.args, f, &f.log, func() reloadable { return new(gatewayFlags) })
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
	defer f.log.close()
	conn, err := connect(ctx, f.bus.config(roleGateway, log))
	if err != nil {
		return err
	}
	defer conn.Close()
	g, err := gateway.New(gateway.Config{Bus: conn, Window: int(f.window), Log: log})
	if err != nil {
		return fmt.Errorf("open the gateway: %w", err)
	}
	r.listener = l
	defer r.onHangup()()
	if err := printURL(stdout, l); err != nil {
		return err
	}
	return untilStopped(ctx, stop, func() error { return g.Serve(ctx, l) })
}
