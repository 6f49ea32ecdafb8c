//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cast"
	"github.com/tetherexec/tether/internal/shellword"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// A recording says which process to record, and how.
type recording struct {
	serverFlags
	out    string
	force  bool
	follow bool
	idle   lifetime
	size   sizeFlag
}

// A sizeFlag is the size of a terminal.
type sizeFlag struct{ cols, rows int }

func (s *sizeFlag) Set(text string) error {
	cols, rows, _ := strings.Cut(text, "x")
	c, err := strconv.ParseUint(cols, 10, 16)
	r, err2 := strconv.ParseUint(rows, 10, 16)
	if err != nil || err2 != nil || c == 0 || r == 0 {
		return errors.New("expected a number of columns and of rows, such as 120x40")
	}
	*s = sizeFlag{int(c), int(r)}
	return nil
}

func (s *sizeFlag) String() string {
	if *s == (sizeFlag{}) {
		return ""
	}
	return fmt.Sprintf("%dx%d", s.cols, s.rows)
}

// sizeOf is the size of a recording of a process.
func sizeOf(p *wire.ProcessInfo) sizeFlag {
	if p.Size != nil && p.Size.Cols > 0 && p.Size.Rows > 0 {
		return sizeFlag{int(p.Size.Cols), int(p.Size.Rows)}
	}
	return sizeFlag{80, 24}
}

func (*sizeFlag) Type() string { return "COLSxROWS" }

func newRecord() *cobra.Command {
	var r recording
	cmd := &cobra.Command{
		Use:   nameRecord + " [flags] -o FILE ID",
		Short: shortRecord,
		Long: "Write the output of a process that the server still has, with its times, to a file in the format\n" +
			"asciicast v2. `tether play`, asciinema and the players of web pages play it. Other readers of the\n" +
			"process still get all of it.\n\n" +
			"The format does not tell standard error from standard output. The size of the terminal is the one\n" +
			"that it has at the beginning of the recording, or had last." + idHelp,
		Example:               "  tether record -o build.cast build\n  tether record --follow --idle 2s --size 120x40 -o work.cast work",
		Args:                  needID(1, 1),
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     r.completeProcesses,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.out == "" {
				return usageError{errors.New("--out is missing: the file for the recording")}
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return orSignal(ctx, r.run(ctx, args[0], cmd.ErrOrStderr()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&r.out, "out", "o", "", "`FILE` for the recording; it appears when it is complete, and only you\ncan read it")
	fs.BoolVar(&r.force, "force", false, "replace the file if it exists")
	fs.BoolVarP(&r.follow, "follow", "f", false, "record new output too, until the process ends or until Ctrl-C, which\nends only the recording")
	fs.Var(&r.idle, "idle", "players shorten each pause to this long")
	fs.Var(&r.size, "size", "size of the terminal in the recording (default: that of the process's\nterminal, else 80x24)")
	group(fs, "Recording", "out", "force", "follow", "idle", "size")
	r.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

func (r *recording) run(ctx context.Context, id string, stderr io.Writer) error {
	if err := r.mayWrite(); err != nil {
		return err
	}
	return r.withObserver(ctx, stderr, func(conn *connection) error {
		p, err := find(ctx, conn, id)
		if err != nil {
			return err
		}
		o, err := conn.Observe(ctx, p.SessionID, p.ProcessID, 0)
		if err != nil {
			return err
		}
		defer o.Close()
		return r.record(ctx, conn, o, p, stderr)
	})
}

// record writes the recording beside its place, and moves it there at the end.
func (r *recording) record(ctx context.Context, conn *connection, o *client.Observation, p *wire.ProcessInfo, stderr io.Writer) error {
	part, err := os.CreateTemp(filepath.Dir(r.out), "."+filepath.Base(r.out)+".*.part")
	if err != nil {
		return fmt.Errorf("record to %s: %w", r.out, cause(err))
	}
	defer os.Remove(part.Name()) // fails if it has become the recording
	defer part.Close()
	size := r.size
	if size == (sizeFlag{}) {
		size = sizeOf(p)
	}
	w, err := cast.NewWriter(part, cast.Header{
		Width: size.cols, Height: size.rows, Idle: time.Duration(r.idle),
		Start: time.UnixMilli(p.StartedAtMs), Title: shellword.Join(p.Argv),
	}, !p.TTY)
	if err != nil {
		return err
	}
	gaps := &gapNotice{conn: conn, process: p, silent: r.quiet, stderr: stderr}
	ended := r.copy(ctx, o, p, w, gaps)
	if ended != nil && !r.follow {
		return ended
	}
	if err := errors.Join(w.Close(), part.Close()); err != nil {
		return fmt.Errorf("record to %s: %w", r.out, cause(err))
	}
	if err := r.mayWrite(); err != nil {
		return err
	}
	if err := os.Rename(part.Name(), r.out); err != nil {
		return err
	}
	_, interrupted := errors.AsType[terminal.SignalError](ended)
	switch {
	case interrupted && !r.quiet:
		printLine(stderr, r.out+" has the output until now; the process runs on")
	case ended != nil && !interrupted:
		return fmt.Errorf("%w\n%s has the output until then", ended, r.out)
	}
	return nil
}

// mayWrite refuses to replace a file without --force, and anything but a file or a link: with --force, root would replace /dev/null.
func (r *recording) mayWrite() error {
	info, err := os.Lstat(r.out)
	switch {
	case err != nil: // it does not exist, or creating it fails with the same reason
		return nil
	case info.IsDir():
		return fmt.Errorf("record to %s: is a directory", r.out)
	case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink:
		return fmt.Errorf("record to %s: is not a regular file", r.out)
	case !r.force:
		return fmt.Errorf("record to %s: the file exists; --force replaces it", r.out)
	}
	return nil
}

// copy writes the output so far to the recording, and with follow also new output.
func (r *recording) copy(ctx context.Context, o *client.Observation, p *wire.ProcessInfo, w *cast.Writer, gaps *gapNotice) error {
	newest := p.NextSeq - 1 // as of the request
	for last := uint64(0); r.follow || last < newest; {
		e, err := o.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		last = e.Seq
		switch e.Kind {
		case client.Gap:
			gaps.tell(ctx)
			err = w.Marker(e.Time, "output that is no longer kept is missing here")
		case client.Output:
			err = w.Output(e.Time, e.Stream, e.Data)
		}
		if err == nil && r.follow {
			err = w.Flush()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
