//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/cast"
	"github.com/tetherexec/tether/internal/cast/player"
	"github.com/tetherexec/tether/internal/terminal"
)

// A playback says how to play a recording.
type playback struct {
	speed speedFlag
	idle  lifetime
}

// A speedFlag is a factor.
type speedFlag float64

func (s *speedFlag) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= player.MinSpeed && n <= player.MaxSpeed) {
		return fmt.Errorf("expected a number between %v and %v", player.MinSpeed, player.MaxSpeed)
	}
	*s = speedFlag(n)
	return nil
}

func (s *speedFlag) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }
func (*speedFlag) Type() string     { return "NUMBER" }

func newPlay(stdout *os.File) *cobra.Command {
	p := playback{speed: 1}
	cmd := &cobra.Command{
		Use:   namePlay + " [flags] FILE",
		Short: shortPlay,
		Long: "Print the output of a recording at the times at which it was printed. FILE is in the format asciicast\n" +
			"v2, made by `tether record` or by asciinema. Ctrl-C ends it. The recording is printed as it is, with\n" +
			"all control sequences: play only recordings that you trust, as with `cat`. At the end, the terminal is\n" +
			"brought back to its usual state.",
		Example: "  tether play build.cast\n  tether play --speed 4 --idle 500ms work.cast",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usageError{errors.New("the FILE of the recording is missing")}
			case len(args) > 1:
				return usageError{fmt.Errorf("unexpected argument %q", args[1])}
			}
			return nil
		},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			defer brokenPipeIsError()()
			return orSignal(ctx, p.run(ctx, args[0], stdout, cmd.ErrOrStderr()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Var(&p.speed, "speed", "play this many times as fast")
	fs.Var(&p.idle, "idle", "shorten each pause to this long (default: what the recording says)")
	group(fs, "Playing", "speed", "idle")
	onlyOnce(fs)
	return cmd
}

func (p *playback) run(ctx context.Context, name string, stdout *os.File, stderr io.Writer) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("play %s: %w", name, cause(err))
	}
	defer file.Close()
	recording, err := cast.NewReader(file)
	if err != nil {
		return fmt.Errorf("play %s: %w", name, cause(err))
	}
	if terminal.Is(stdout) {
		h := recording.Header()
		if rows, cols := terminal.Size(stdout); h.Width > int(cols) || h.Height > int(rows) {
			printLine(stderr, fmt.Sprintf("the recording is from a terminal of %dx%d; this one has %dx%d, so that lines may look wrong", h.Width, h.Height, cols, rows))
		}
		defer terminal.OnlyShow(stdout)()
		defer io.WriteString(stdout, player.Reset)
	}
	err = player.Play(ctx, recording, stdout, player.Options{Speed: float64(p.speed), Idle: time.Duration(p.idle)})
	if _, malformed := errors.AsType[*cast.FormatError](err); malformed {
		return fmt.Errorf("play %s: %w", name, err)
	}
	return quietPipe(cause(err))
}
