package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

func newSessions() *cobra.Command {
	var server serverFlags
	var asJSON bool
	var end []string
	cmd := &cobra.Command{
		Use:   "sessions [flags]",
		Short: "List the sessions of a server, or end some",
		Long: "List the sessions of a server, or end some with all processes in them. A server that tells its\n" +
			"clients apart shows each client its own. SESSION is the id of a session, the beginning of its id,\n" +
			"or its label.",
		Example:               "  tether sessions\n  tether sessions --end 3f2a91c0",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sessions := []wire.SessionInfo{}
			err := server.withSession(cmd.Context(), cmd.ErrOrStderr(), func(conn *connection) error {
				all, err := conn.Sessions(cmd.Context())
				own := conn.PublicID()
				for i := range all {
					if all[i].SessionID != own {
						sessions = append(sessions, all[i])
					}
				}
				if err != nil || len(end) == 0 {
					return err
				}
				return endSessions(cmd, conn, sessions, end)
			})
			if len(end) > 0 || err != nil && !errors.Is(err, errNoServer) {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), sessions)
			}
			return printSessions(cmd.OutOrStdout(), sessions, time.Now())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&asJSON, "json", false, "print the answer of the server as JSON")
	fs.StringArrayVar(&end, "end", nil, "end this `SESSION` and all processes in it; can be repeated")
	server.define(fs, ownServer)
	onlyOnce(fs)
	cmd.RegisterFlagCompletionFunc("end", server.completeSessions)
	return cmd
}

// endSessions ends the sessions with these ids. It returns an error for each failure.
func endSessions(cmd *cobra.Command, conn *connection, all []wire.SessionInfo, ids []string) error {
	var failures []error
	for _, id := range ids {
		s, err := resolveSession(conn.flags, all, id)
		if err == nil {
			err = conn.EndSession(cmd.Context(), s.SessionID)
		}
		if errors.Is(err, client.ErrAmbiguous) {
			err = fmt.Errorf("session %s: %w", id, err)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}
