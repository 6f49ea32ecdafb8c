package main

import (
	"context"
	"fmt"

	"github.com/tetherexec/tether/internal/embedded"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/server"
)

// embeddedServer starts a server in this process, for us alone. It ends, with all that
// it has started, when the function that it returns as stop is called.
func embeddedServer(userSockets bool) func(context.Context) (address, place, func() error, error) {
	return func(ctx context.Context) (a address, p place, stop func() error, err error) {
		if err := proc.ResetInherited(); err != nil {
			return a, p, nil, fmt.Errorf("prepare for children: %w", err)
		}
		s, err := embedded.Start(ctx, server.Config{Version: versionText(), Subreaper: true, UserSockets: userSockets})
		if err != nil {
			return a, p, nil, err
		}
		return address{url: embedded.URL, connect: s.Connect}, inProcess, s.Close, nil
	}
}
