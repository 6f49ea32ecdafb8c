//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// A sessionList says which sessions to print or to end.
type sessionList struct {
	serverFlags
	all    bool // of all hosts of a fleet
	asJSON bool
	end    []string
}

// A listedSession is a session in a list.
type listedSession struct {
	Host string `json:"host,omitempty"` // of the fleet, in a list of all hosts
	wire.SessionInfo
}

func newSessions() *cobra.Command {
	var l sessionList
	cmd := &cobra.Command{
		Use:   "sessions [flags]",
		Short: shortSessions,
		Long: "List the sessions of a server, or end some with all processes in them. A server that tells its\n" +
			"clients apart shows each client its own. SESSION is the id of a session, the beginning of its id,\n" +
			"or its label. With --all-hosts, a host that does not answer is named on standard error, and the\n" +
			"exit code is 1.",
		Example:               "  tether sessions\n  tether sessions --end 3f2a91c0",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(l.end) > 0:
				return l.withObserver(cmd.Context(), cmd.ErrOrStderr(), func(conn *connection) error { return l.endAll(cmd.Context(), conn) })
			case l.all:
				if err := l.checkAll(); err != nil {
					return err
				}
				answers, err := askHosts(cmd.Context(), &l.serverFlags, listSessions)
				if err != nil {
					return err
				}
				return errors.Join(l.print(cmd.OutOrStdout(), merge(answers)), tellSilent(answers, cmd.ErrOrStderr()))
			}
			var sessions []listedSession
			err := l.withObserver(cmd.Context(), cmd.ErrOrStderr(), func(conn *connection) (err error) {
				sessions, err = listSessions(cmd.Context(), conn)
				return err
			})
			if err != nil && !errors.Is(err, errNoServer) {
				return err
			}
			return l.print(cmd.OutOrStdout(), sessions)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	defineAllHosts(fs, &l.all)
	fs.BoolVar(&l.asJSON, "json", false, "print the answer of the server as JSON")
	fs.StringArrayVar(&l.end, "end", nil, "end this `SESSION` and all processes in it; can be repeated")
	l.define(fs, ownServer)
	onlyOnce(fs)
	cmd.RegisterFlagCompletionFunc("end", l.completeSessions)
	return cmd
}

// listSessions returns the sessions of a server, without this one.
func listSessions(ctx context.Context, conn *connection) (sessions []listedSession, err error) {
	all, err := conn.Sessions(ctx)
	for _, s := range all {
		if s.SessionID != conn.PublicID() {
			sessions = append(sessions, listedSession{conn.Host(), s})
		}
	}
	return sessions, err
}

func (l *sessionList) print(w io.Writer, sessions []listedSession) error {
	if l.asJSON {
		return printJSON(w, append([]listedSession{}, sessions...))
	}
	return printSessions(w, sessions, l.all, time.Now())
}

// endAll ends the sessions with the given ids. It returns an error for each failure.
func (l *sessionList) endAll(ctx context.Context, conn *connection) error {
	sessions, err := everywhere(ctx, conn, listSessions)
	if err != nil {
		return err
	}
	var failures []error
	for _, id := range l.end {
		s, err := resolveSession(conn.flags, sessions, id)
		if err != nil {
			err = conn.notFound(err)
		} else {
			err = conn.moveTo(ctx, s.Host)
		}
		if err == nil {
			err = conn.EndSession(ctx, s.SessionID)
		}
		if errors.Is(err, client.ErrAmbiguous) {
			err = fmt.Errorf("session %s: %w", id, err)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}
