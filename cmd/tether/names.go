package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// ownServer is the server that commands use without an address, for their help.
const ownServer = "the one that `run --detach` starts"

// shortID is the beginning of a session's id, as lists show it.
func shortID(id string) string { return id[:min(len(id), 8)] }

// nameIsFree refuses a name that a running process has, because the two could not be told apart.
func nameIsFree(ctx context.Context, conn *connection, name string) error {
	processes, err := conn.Processes(ctx, "")
	if errors.Is(err, client.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range processes {
		if p.ProcessID == name && p.State == wire.StateRunning {
			return fmt.Errorf("a process called %q is running already (session %s); choose another name with --name, or end it with %s", name, shortID(p.SessionID), conn.flags.commandLine("kill", name))
		}
	}
	return nil
}
