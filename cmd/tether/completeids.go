//go:build mcp || fleet || !split

package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
)

// completionPatience is how long a completion may take.
const completionPatience = time.Second

// completeProcesses offers the names of processes.
func (f *serverFlags) completeProcesses(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	f.quick(cmd, func(ctx context.Context, conn *connection) {
		processes, _ := everywhere(ctx, conn, listProcesses) // after an error, nothing is offered
		for _, p := range processes {
			names = offer(names, p.ProcessID, strings.Join(p.Argv, " "))
		}
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// offer adds a word that a shell shows with a description. Both come from other clients. A word with
// characters that a terminal cannot show is left out, because a changed word would be wrong.
func offer(words []cobra.Completion, word, description string) []cobra.Completion {
	if terminal.Printable(word) != word {
		return words
	}
	return append(words, cobra.CompletionWithDesc(word, terminal.Printable(description)))
}

// completeSessions offers the ids of sessions.
func (f *serverFlags) completeSessions(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var ids []cobra.Completion
	f.quick(cmd, func(ctx context.Context, conn *connection) {
		sessions, _ := everywhere(ctx, conn, listSessions)
		for _, s := range sessions {
			ids = offer(ids, shortID(s.SessionID), s.Label+" "+s.ClientName)
		}
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// quick asks a server, unless that takes too long, as with ssh.
func (f *serverFlags) quick(cmd *cobra.Command, ask func(context.Context, *connection)) {
	if a, _, err := f.address(); err != nil || a.command != nil {
		return
	}
	base := cmd.Context()
	if base == nil {
		base = context.Background()
	}
	ctx, cancel := context.WithTimeout(base, completionPatience)
	defer cancel()
	conn, err := f.dial(ctx, nil, client.Options{}, homeServer(false))
	if err != nil {
		return
	}
	defer conn.end()
	ask(ctx, conn)
}
