package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// A logRequest is what to show of a process's output.
type logRequest struct {
	serverFlags
	follow bool
	since  uint64
	tail   tailCount
	grep   string
	asJSON bool
}

func newLogs(stdout *os.File) *cobra.Command {
	r := logRequest{tail: -1}
	cmd := &cobra.Command{
		Use:   "logs [flags] ID",
		Short: "Print the output of a process",
		Long: "Print the output of a process that the server still has, standard error on standard error.\n" +
			"Reading it takes nothing away from anybody. " + idHelp,
		Example:               "  tether logs web\n  tether logs -f --tail 20 --grep 'GET /' web\n  tether logs --json --since 117 web",
		Args:                  needID(1, 1),
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     r.completeProcesses,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return orSignal(ctx, r.run(ctx, args[0], stdout, cmd.ErrOrStderr()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVarP(&r.follow, "follow", "f", false, "go on until the output ends")
	fs.Uint64Var(&r.since, "since", 0, "only what comes after the event with this number (`SEQ`), as in --json")
	fs.VarP(&r.tail, "tail", "n", "only the last lines (with --json: events), as many as this")
	fs.StringVar(&r.grep, "grep", "", "only lines (with --json: output) that match the regular expression `RE`")
	fs.BoolVar(&r.asJSON, "json", false, "print events for machines, one per line")
	group(fs, "What to print", "follow", "since", "tail", "grep", "json")
	r.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

// tailCount is a number of lines; negative: all.
type tailCount int

func (t *tailCount) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return errors.New("expected a whole number")
	}
	*t = tailCount(n)
	return nil
}

func (t *tailCount) String() string {
	if *t < 0 {
		return ""
	}
	return strconv.Itoa(int(*t))
}

func (*tailCount) Type() string { return "LINES" }

func (r *logRequest) run(ctx context.Context, id string, stdout *os.File, stderr io.Writer) error {
	printer := &logPrinter{tail: int(r.tail), asJSON: r.asJSON}
	if r.grep != "" {
		re, err := regexp.Compile(r.grep)
		if err != nil {
			return usageError{fmt.Errorf("--grep: %w", err)}
		}
		printer.grep = re
	}
	return r.visit(ctx, stderr, func(conn *connection) error {
		printer.stdout, printer.stderr = conn.status.output(stdout), conn.status.output(stderr)
		p, err := find(ctx, conn, id)
		if err != nil {
			return err
		}
		o, err := conn.Observe(ctx, p.SessionID, p.ProcessID, r.since)
		if err != nil {
			return err
		}
		defer o.Close()
		return r.print(ctx, o, p, printer, stderr)
	})
}

// print prints what there is, and with follow what comes.
func (r *logRequest) print(ctx context.Context, o *client.Observation, p *wire.ProcessInfo, printer *logPrinter, stderr io.Writer) error {
	newest := p.NextSeq - 1 // when we came
	last := r.since
	for {
		if last >= newest && !r.follow {
			break
		}
		if last >= newest {
			if err := printer.release(); err != nil {
				return quietPipe(err)
			}
		}
		e, err := o.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		last = e.Seq
		if e.Kind == client.Gap && !r.asJSON && !r.quiet {
			fmt.Fprintf(stderr, "tether: events %d to %d are not kept any more\n", e.First, e.Seq)
		}
		if err := printer.event(e); err != nil {
			return quietPipe(err)
		}
	}
	return quietPipe(printer.finish())
}

// quietPipe ends us without a word if nobody reads what we print.
func quietPipe(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return codedError{code: exitSignal + int(syscall.SIGPIPE)}
	}
	return err
}
