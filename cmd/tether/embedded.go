package main

import (
	"context"
	"fmt"

	"github.com/tetherexec/tether/internal/embedded"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/server"
)

// embeddedServer returns a function that starts a server in this process, for this process
// alone. If its commands have limits, this process may move into a control group of its own. The stop function of the
// target ends the server and all that it has started.
func embeddedServer(machine machineFlags, limits bool) func(context.Context) (target, error) {
	return func(ctx context.Context) (target, error) {
		if err := proc.ResetInherited(); err != nil {
			return target{}, fmt.Errorf("prepare for children: %w", err)
		}
		cfg := server.Config{Version: versionText(), Subreaper: true, OwnGroup: limits}
		machine.apply(&cfg)
		s, err := embedded.Start(ctx, cfg)
		if err != nil {
			return target{}, err
		}
		return target{address{url: embedded.URL, connect: s.Connect}, kindEmbedded, s.Close}, nil
	}
}
