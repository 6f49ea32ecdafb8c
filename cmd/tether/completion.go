package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
)

// completionPatience is how long a completion may take.
const completionPatience = time.Second

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes command lines of tether",
		Long: "Print a script that lets a shell complete commands, flags and the names of processes:\n\n" +
			"  bash: source <(tether completion bash)\n" +
			"  zsh:  source <(tether completion zsh)\n" +
			"  fish: tether completion fish | source",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usageError{errors.New("the name of a shell is missing: bash, zsh or fish")}
			case len(args) > 1:
				return usageError{fmt.Errorf("unexpected argument %q", args[1])}
			}
			return nil
		},
		ValidArgs:             []string{"bash", "zsh", "fish"},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, w := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			}
			return usageError{fmt.Errorf("unknown shell %q: expected bash, zsh or fish", args[0])}
		},
	}
}

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
