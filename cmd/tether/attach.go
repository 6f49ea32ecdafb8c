//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// How much of the earlier output `tether attach` shows.
const (
	replayBytes  = 256 << 10
	replayEvents = 16 // if there is more than that
)

// An attachment connects this terminal with a process of another session.
type attachment struct {
	serverFlags
	escape  string
	noStdin bool
	since   uint64

	sinceGiven    bool
	stdin, stdout *os.File
}

func newAttach(stdin, stdout *os.File) *cobra.Command {
	a := attachment{stdin: stdin, stdout: stdout}
	cmd := &cobra.Command{
		Use:   "attach [flags] ID",
		Short: shortAttach,
		Long: "Show the output of a process, and pass input, signals and the size of the terminal on to it, as\n" +
			"if it had been started here. Enter ~ . detaches, and the process runs on; ~~ types one ~. When the\n" +
			"process ends, attach ends with its exit code." + idHelp,
		Example:               "  tether run --detach --tty --name work -- bash\n  tether attach work",
		Args:                  func(cmd *cobra.Command, args []string) error { return failed(needID(1, 1)(cmd, args)) },
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     a.completeProcesses,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.sinceGiven = cmd.Flags().Changed("since")
			return failed(a.run(cmd, args[0]))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&a.noStdin, "no-stdin", false, "only watch: pass on neither input nor signals")
	fs.Uint64Var(&a.since, "since", 0, "begin with the output after the event with this number (`SEQ`;\ndefault: recent output)")
	fs.StringVar(&a.escape, "escape", terminal.DefaultEscape, "`CHAR` that detaches when it is typed at the beginning of a line with a\nfull stop behind it; or none")
	a.define(fs, ownServer)
	onlyOnce(fs)
	ownFailures(cmd)
	return cmd
}

func (a *attachment) run(cmd *cobra.Command, id string) error {
	keys, err := parseEscape(a.escape)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	signals, ignore := terminal.CatchSignals()
	defer ignore()
	defer brokenPipeIsError()()
	starting, stop := untilSignal(ctx)
	defer stop()

	status := terminal.NewStatusLine(cmd.ErrOrStderr(), a.quiet)
	conn, err := a.dialObserver(starting, status, client.Options{TTL: keepAttended})
	if err != nil {
		return orSignal(starting, err)
	}
	defer conn.end()
	p, err := find(starting, conn, id)
	if err != nil {
		return orSignal(starting, err)
	}
	session := terminal.NewSession(a.stdin, a.stdout, cmd.ErrOrStderr(), p.TTY, !a.noStdin, status)
	session.Guest, session.Watching = true, a.noStdin
	session.On(conn.Client, p.SessionID, p.ProcessID)
	var sources []terminal.Events
	for range session.Outputs() {
		o, err := conn.Observe(starting, p.SessionID, p.ProcessID, a.begin(p))
		if err != nil {
			return orSignal(starting, err)
		}
		sources = append(sources, observed{o})
	}
	stop()
	process := conn.Remote(p.SessionID, p.ProcessID)
	var in *terminal.Input
	if !a.noStdin {
		in = &terminal.Input{To: terminal.WriterFunc(process.Write), Close: func() error { return nil }, Escape: keys,
			Ended: func(terminal.Ending) { conn.end() }}
	}
	end := session.Stream(process, sources, in, signals)
	if errors.Is(end.Left, terminal.ErrEscape) {
		session.EndLine()
		return nil
	}
	return endingError(end)
}

// begin returns the event after which the output is shown.
func (a *attachment) begin(p *wire.ProcessInfo) uint64 {
	switch {
	case a.sinceGiven:
		return a.since
	case p.HeldBytes <= replayBytes || p.NextSeq <= replayEvents:
		return 0
	}
	return p.NextSeq - 1 - replayEvents
}

// observed are the events of a process that is watched.
type observed struct{ *client.Observation }

func (o observed) Next(ctx context.Context) (client.Event, error) {
	e, err := o.Observation.Next(ctx)
	return e.Event, err
}
