//go:build !fleet && (mcp || !split)

package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// These commands have checked their flags. Each replaces this process by tether-fleet, which does the work.

func (f *hubFlags) run(context.Context, *os.File, io.Writer) error {
	return withFleet.become(nameHub, f.args)
}

func (a *hubAdd) run(*os.File) error { return withFleet.become(nameHub, a.args) }

func (r *hubRevoke) run(io.Writer) error { return withFleet.become(nameHub, r.args) }

func (f *gatewayFlags) run(*cobra.Command, *os.File) error {
	return withFleet.become(nameGateway, f.args)
}

func (f *hostsFlags) run(context.Context, *os.File) error { return withFleet.become(nameHosts, f.args) }

func (f *drainFlags) run(context.Context) error { return withFleet.become(nameHosts, f.args) }
