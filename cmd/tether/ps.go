//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// watchStep is how often `tether ps --watch` asks the server.
const watchStep = time.Second

// A processList says which processes of a server to print, and how.
type processList struct {
	serverFlags
	asJSON  bool
	running bool
	watch   bool
	all     bool // hosts of a fleet
	stdout  *os.File
}

func newPs(stdout *os.File) *cobra.Command {
	l := processList{stdout: stdout}
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: shortPs,
		Long: "List the processes of a server, of all its sessions; of a server that tells its clients apart, your\n" +
			"own. A process is `blocked` if it has to wait because its output is not read. DOING says why a\n" +
			"running process is silent. WAITING is output that was not yet sent to the client. CPU and MEMORY are\n" +
			"those of the process and all that it started, if the server knows them; for a process that has\n" +
			"ended, MEMORY is the most that it had. Lines below the list name processes that were killed and are\n" +
			"still there, and say if a part of a server with a keeper has died. With --all-hosts, a host that does\n" +
			"not answer is named on standard error, and the exit code is 1.",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.watch && l.asJSON {
				return usageError{errors.New("--watch and --json cannot be used together")}
			}
			if l.all && l.watch {
				return usageError{errors.New("--watch and --all-hosts cannot be used together")}
			}
			if l.all {
				if err := l.checkAll(); err != nil {
					return err
				}
				return l.runAll(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return l.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&l.running, "running", false, "leave out processes that have ended")
	fs.BoolVarP(&l.watch, "watch", "w", false, "print the list again every second until interrupted")
	defineAllHosts(fs, &l.all)
	fs.BoolVar(&l.asJSON, "json", false, "print the answer of the server as JSON")
	l.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

func (l *processList) run(ctx context.Context, stdout, stderr io.Writer) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	err := l.withObserver(ctx, stderr, func(conn *connection) error {
		for {
			all, err := conn.ListProcesses(ctx, "")
			if err != nil {
				return err
			}
			if err := l.print(stdout, onHost(conn.Host(), all.Processes)); err != nil || !l.watch {
				for _, note := range l.notes(ctx, conn, all) {
					printLine(stderr, note)
				}
				return err
			}
			select {
			case <-time.After(watchStep):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if errors.Is(err, errNoServer) && !l.watch { // without a server there are no processes
		err = l.print(stdout, nil)
	}
	return orSignal(ctx, quietPipe(err))
}

// escClearScreen moves the cursor to the beginning and clears what follows it.
const escClearScreen = "\x1b[H\x1b[J"

// A listedProcess is a process in a list.
type listedProcess struct {
	Host string `json:"host,omitempty"` // of the fleet, in a list of all hosts
	wire.ProcessInfo
}

func onHost(host string, all []wire.ProcessInfo) (list []listedProcess) {
	for _, p := range all {
		list = append(list, listedProcess{host, p})
	}
	return list
}

// runAll lists the processes on all hosts of a fleet.
func (l *processList) runAll(ctx context.Context, stdout, stderr io.Writer) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	type listing struct {
		processes []wire.ProcessInfo
		notes     []string
	}
	answers, err := askHosts(ctx, &l.serverFlags, func(ctx context.Context, conn *connection) (listing, error) {
		all, err := conn.ListProcesses(ctx, "")
		if err != nil {
			return listing{}, err
		}
		return listing{all.Processes, l.notes(ctx, conn, all)}, nil
	})
	if err != nil {
		return orSignal(ctx, err)
	}
	var all []listedProcess
	for _, a := range answers {
		all = append(all, onHost(a.host, a.value.processes)...)
	}
	if err := l.print(stdout, all); err != nil {
		return quietPipe(err)
	}
	for _, a := range answers {
		for _, note := range a.value.notes {
			printLine(stderr, "host "+a.host+": "+note)
		}
	}
	return tellSilent(answers, stderr)
}

func (l *processList) print(stdout io.Writer, all []listedProcess) error {
	if l.running {
		all = running(all)
	}
	if l.asJSON {
		return printJSON(stdout, append([]listedProcess{}, all...))
	}
	width := 0
	if terminal.Is(l.stdout) {
		_, cols := terminal.Size(l.stdout)
		width = int(cols)
		if l.watch {
			io.WriteString(stdout, escClearScreen)
		}
	}
	return printProcesses(stdout, all, l.all, time.Now(), width)
}

// running returns the processes that run.
func running(all []listedProcess) (list []listedProcess) {
	for i := range all {
		if all[i].State == wire.StateRunning {
			list = append(list, all[i])
		}
	}
	return list
}

// notes returns the lines below the list: they name processes that were killed and are still there, and say if workers of the
// server have died.
func (l *processList) notes(ctx context.Context, conn *connection, list wire.ListResult) []string {
	if l.quiet {
		return nil
	}
	notes := survivorLines(list)
	if conn.Has(client.FeatureKeeper) {
		if state, err := keeperState(ctx, conn.Client); err == nil && state.Deaths > 0 {
			notes = append(notes, deathsText(state))
		}
	}
	return notes
}

// deathsText tells how many workers of a server have died, and how the last one ended.
func deathsText(state wire.KeeperState) string {
	if state.Deaths == 0 {
		return "no worker has died"
	}
	return fmt.Sprintf("workers of the server that have died: %d; how the one before the present one ended: %s", state.Deaths, state.LastEnd)
}
