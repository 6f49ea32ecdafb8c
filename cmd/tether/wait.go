//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

func newWait() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:   "wait [flags] ID",
		Short: shortWait,
		Long: "Wait until a process has exited, and exit with its code. If it has exited already, wait ends at\n" +
			"once." + idHelp,
		Example: "  tether run --detach --name build -- make\n  tether wait build && echo built",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return failed(orSignal(ctx, server.withObserver(ctx, cmd.ErrOrStderr(), func(conn *connection) error {
				return waitFor(ctx, conn, args[0])
			})))
		},
	}
	server.defineFor(cmd, 1, 1)
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, ids []string) error { return failed(args(cmd, ids)) }
	ownFailures(cmd)
	return cmd
}

// waitFor waits for the exit of a process and returns its code as an error.
func waitFor(ctx context.Context, conn *connection, id string) error {
	p, err := find(ctx, conn, id)
	if err != nil {
		return err
	}
	if p.ExitCode != nil {
		return ofCommand(*p.ExitCode)
	}
	o, err := conn.Observe(ctx, p.SessionID, p.ProcessID, p.NextSeq-1)
	if err != nil {
		return err
	}
	defer o.Close()
	for {
		e, err := o.Next(ctx)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, client.ErrUnknownProcess):
			return codedError{exitLost, fmt.Errorf("%s: its session has ended, and its exit code is unknown", id)}
		case err != nil:
			return err
		case e.Kind == client.Exited:
			return ofCommand(e.ExitCode)
		case e.Kind == client.Gap, e.Kind == client.Closed: // the exit may be among the events that are no longer kept
			if p, err := refresh(ctx, conn, p); err == nil && p.ExitCode != nil {
				return ofCommand(*p.ExitCode)
			}
		}
	}
}

func newRm() *cobra.Command {
	var server serverFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "rm [flags] ID...",
		Short: shortRm,
		Long: "Remove commands of `tether run --detach` that have ended, and their output. Other processes belong\n" +
			"to the session of a client and cannot be removed." + idHelp,
		Example: "  tether rm build\n  tether rm --force web",
		RunE: func(cmd *cobra.Command, ids []string) error {
			return server.withObserver(cmd.Context(), cmd.ErrOrStderr(), func(conn *connection) error {
				var failures []error
				for _, id := range ids {
					failures = append(failures, remove(cmd.Context(), conn, id, force))
				}
				return errors.Join(failures...)
			})
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "end a command that still runs")
	server.defineFor(cmd, 1, -1)
	return cmd
}

// remove ends the session of a detached command, which has no other process. The label of the
// session is the name of the command, if it was given one. remove refuses a session of another
// client, also without a connection, because that client may reconnect.
func remove(ctx context.Context, conn *connection, id string, force bool) error {
	p, err := findBy(ctx, conn, id, resolveOnly)
	if err != nil {
		return err
	}
	sessions, err := conn.Sessions(ctx)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		switch {
		case s.SessionID != p.SessionID:
			continue
		case s.Attached || s.Processes > 1 || s.ClientName != clientName || s.Label != "" && s.Label != p.ProcessID:
			return fmt.Errorf("%s belongs to a session of %s (%s), not to `tether run --detach`; %s ends the process, %s the session",
				id, s.ClientName, shortID(s.SessionID), conn.flags.commandLine("kill", id), conn.flags.commandLine("sessions", "--end", shortID(s.SessionID)))
		case p.State == wire.StateRunning && !force:
			return fmt.Errorf("%s is still running; end it with %s, or use --force", id, conn.flags.commandLine("kill", id))
		}
		return conn.EndSession(ctx, s.SessionID)
	}
	return nil // it has just ended
}

func newWhy() *cobra.Command {
	var server serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why [flags] ID",
		Short: shortWhy,
		Long: "Look at a process and all that it has started, and say what it is doing now: computing, or waiting\n" +
			"for input, for the network, for another process, or for its output to be read. Say also which hosts it\n" +
			"was refused, and whether the sandbox or a limit may be the reason for its end." + idHelp,
		Example: "  tether why web",
		RunE: func(cmd *cobra.Command, args []string) error {
			return server.withObserver(cmd.Context(), cmd.ErrOrStderr(), func(conn *connection) error {
				p, err := find(cmd.Context(), conn, args[0])
				if err != nil {
					return err
				}
				state, err := conn.Remote(p.SessionID, p.ProcessID).State(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), state)
				}
				if err := printState(cmd.OutOrStdout(), &state); err != nil || !conn.Has(client.FeatureDescribe) {
					return err
				}
				facts, err := conn.Remote(p.SessionID, p.ProcessID).Describe(cmd.Context())
				if err != nil {
					return err
				}
				return printReasons(cmd.OutOrStdout(), &facts)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer of the server as JSON")
	server.defineFor(cmd, 1, 1)
	return cmd
}

// printState prints a sentence, and below it what was seen of each process.
func printState(w io.Writer, state *wire.StateResult) error {
	if _, err := fmt.Fprintln(w, terminal.Printable(state.StateDetail.Text)); err != nil {
		return err
	}
	for _, e := range state.StateDetail.Evidence {
		if _, err := fmt.Fprintf(w, "  %d %s: %s\n", e.PID, terminal.Printable(e.Command), terminal.Printable(e.Saw)); err != nil {
			return err
		}
	}
	return nil
}
