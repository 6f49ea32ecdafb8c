package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// How much of what was printed before is shown to who attaches.
const (
	replayBytes  = 256 << 10
	replayEvents = 16 // if there is more than that
)

// An attachment is our end of a command of another session.
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
		Short: "Attach this terminal to a running process",
		Long: "Show the output of a process, and pass input, signals and the size of the terminal on to it, as\n" +
			"if it had been started here. Type Enter ~ . to leave it running; ~~ types one. When it ends, its\n" +
			"exit code is ours. " + idHelp,
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
	fs.Uint64Var(&a.since, "since", 0, "begin with the output after the event with this number (`SEQ`;\ndefault: what was printed recently)")
	fs.StringVar(&a.escape, "escape", defaultEscape, "`CHAR` that leaves the process when it is typed at the beginning of a\nline with a full stop behind it; or none")
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
	signals := make(chan os.Signal, 8)
	notifySignals(signals)
	defer signal.Stop(signals)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	starting, stop := untilSignal(ctx)
	defer stop()

	status := newStatusLine(cmd.ErrOrStderr(), a.quiet)
	conn, err := a.dial(starting, status, client.Options{TTL: keepAttended}, homeServer(false))
	if err != nil {
		return orSignal(starting, err)
	}
	defer conn.end()
	p, err := find(starting, conn, id)
	if err != nil {
		return orSignal(starting, err)
	}
	desk := newDesk(a.stdin, a.stdout, cmd.ErrOrStderr(), p.TTY, !a.noStdin, status)
	desk.guest, desk.watching = true, a.noStdin
	desk.on(conn, p.SessionID, p.ProcessID)
	var sources []events
	for range desk.outputs() {
		o, err := conn.Observe(starting, p.SessionID, p.ProcessID, a.begin(p))
		if err != nil {
			return orSignal(starting, err)
		}
		sources = append(sources, observed{o})
	}
	stop()
	return a.attend(conn, conn.Remote(p.SessionID, p.ProcessID), desk, sources, keys, signals)
}

// begin is the event after which the output is shown.
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

func (a *attachment) attend(conn *connection, r *client.Remote, d *desk, sources []events, keys *escape, signals chan os.Signal) error {
	if d.raw {
		defer makeRaw(a.stdin)()
		defer followSize(a.stdout, func(rows, cols uint16) {
			ctx, cancel := context.WithTimeout(context.Background(), sendPatience)
			defer cancel()
			r.Resize(ctx, int(rows), int(cols)) // fails only when there is no terminal any more
		})()
	}
	var end ending
	if a.noStdin {
		end = d.attend(r, sources, signals, nil)
	} else {
		if !isTerminal(a.stdin) {
			keys = nil
		}
		k := newKeyboard(a.stdin, keys, writerTo(r.Write), func() error { return nil })
		defer k.wait()
		defer conn.end() // a keyboard may wait for its command
		defer k.stop()
		end = d.attend(r, sources, signals, k.leave)
	}
	if errors.Is(end.left, errEscape) {
		d.endLine()
		return nil
	}
	return end.result()
}
