//go:build mcp || fleet || !split

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
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// A logRequest says which output of a process to print, and how.
type logRequest struct {
	serverFlags
	follow bool
	since  sinceFlag
	tail   tailCount
	grep   string
	times  bool
	asJSON bool
}

// A sinceFlag is where the output begins: after an event, or at a time.
type sinceFlag struct {
	seq uint64
	age time.Duration // 0 if not given
}

func (s *sinceFlag) Set(text string) error {
	if seq, err := strconv.ParseUint(text, 10, 64); err == nil {
		*s = sinceFlag{seq: seq}
		return nil
	}
	age, err := time.ParseDuration(text)
	if err != nil || age <= 0 {
		return errors.New("expected the number of an event, or a duration such as 30s, 10m or 2h")
	}
	*s = sinceFlag{age: age}
	return nil
}

func (s *sinceFlag) String() string {
	switch {
	case s.age > 0:
		return s.age.String()
	case s.seq > 0:
		return strconv.FormatUint(s.seq, 10)
	}
	return ""
}

func (*sinceFlag) Type() string { return "TIME|SEQ" }

func newLogs(stdout *os.File) *cobra.Command {
	r := logRequest{tail: -1}
	cmd := &cobra.Command{
		Use:   "logs [flags] ID",
		Short: shortLogs,
		Long: "Print the output of a process that the server still has, and its standard error on standard error.\n" +
			"Other readers still get all of it." + idHelp,
		Example:               "  tether logs web\n  tether logs -f --tail 20 --grep 'GET /' web\n  tether logs -t --since 10m web\n  tether logs --json --since 117 web",
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
	fs.BoolVarP(&r.follow, "follow", "f", false, "print new output too, until the process ends")
	fs.Var(&r.since, "since", "print only output of the last `TIME|SEQ`, such as 10m, or after the event\nwith this number, as in --json")
	fs.BoolVarP(&r.times, "timestamps", "t", false, "begin each line with the time when it was printed")
	fs.VarP(&r.tail, "tail", "n", "print only this many of the last lines (with --json: events)")
	fs.StringVar(&r.grep, "grep", "", "print only lines (with --json: output events) that match the regular\nexpression `RE`")
	fs.BoolVar(&r.asJSON, "json", false, "print events as JSON, one per line")
	group(fs, "What to print", "follow", "since", "timestamps", "tail", "grep", "json")
	r.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

// tailCount is a number of lines; a negative number means all.
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
	if r.times && r.asJSON {
		return usageError{errors.New("--timestamps cannot be used with --json, which always has the times")}
	}
	printer := &terminal.LogPrinter{Tail: int(r.tail), JSON: r.asJSON, Times: r.times}
	if r.since.age > 0 {
		printer.From = time.Now().Add(-r.since.age)
	}
	if r.grep != "" {
		re, err := regexp.Compile(r.grep)
		if err != nil {
			return usageError{fmt.Errorf("--grep: %w", err)}
		}
		printer.Grep = re
	}
	return r.withObserver(ctx, stderr, func(conn *connection) error {
		printer.Stdout, printer.Stderr = conn.status.Output(stdout), conn.status.Output(stderr)
		p, err := find(ctx, conn, id)
		if err != nil {
			return err
		}
		if err := r.skip(ctx, conn, p); err != nil {
			return err
		}
		o, err := conn.Observe(ctx, p.SessionID, p.ProcessID, r.since.seq)
		if err != nil {
			return err
		}
		defer o.Close()
		gaps := &gapNotice{conn: conn, process: p, silent: r.asJSON || r.quiet || !printer.From.IsZero(), stderr: stderr}
		return r.print(ctx, o, p, printer, gaps)
	})
}

// print prints the output so far, and with follow also new output.
func (r *logRequest) print(ctx context.Context, o *client.Observation, p *wire.ProcessInfo, printer *terminal.LogPrinter, gaps *gapNotice) error {
	newest := p.NextSeq - 1 // as of the request
	last := r.since.seq
	for {
		if last >= newest && !r.follow {
			break
		}
		if last >= newest {
			if err := printer.Release(); err != nil {
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
		if e.Kind == client.Gap {
			gaps.tell(ctx)
		}
		if err := printer.Event(e); err != nil {
			return quietPipe(err)
		}
	}
	return quietPipe(printer.Finish())
}

// A gapNotice says how much output is missing because the server no longer keeps it.
type gapNotice struct {
	conn    *connection
	process *wire.ProcessInfo
	told    uint64 // bytes that were reported already
	silent  bool
	stderr  io.Writer
}

func (g *gapNotice) tell(ctx context.Context) {
	if g.silent {
		return
	}
	dropped := g.process.DroppedBytes
	if p, err := refresh(ctx, g.conn, g.process); err == nil {
		dropped = p.DroppedBytes
	}
	if dropped > g.told {
		printLine(g.stderr, terminal.Bytes(dropped-g.told)+" of output are no longer kept")
		g.told = dropped
	}
}

// quietPipe ends tether without a message if the reader of its output has closed the pipe.
func quietPipe(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return codedError{code: exitSignal + int(syscall.SIGPIPE)}
	}
	return err
}
