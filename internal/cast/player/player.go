// Package player plays recordings of terminals, at the speed of the recording or faster.
package player

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tetherexec/tether/internal/cast"
)

// Limits of the speed.
const (
	MinSpeed = 0.01
	MaxSpeed = 1000
)

// maxBehind is how far the player may be behind the recording and still catch up by leaving out pauses. If it is further behind, as after
// it was stopped with Ctrl-Z, it goes on from there at the speed of the recording.
const maxBehind = time.Second

// Options say how to play a recording.
type Options struct {
	Speed float64       // 2: twice as fast; 0 stands for 1
	Idle  time.Duration // no pause is longer than this, before Speed; 0: what the recording says
}

// Play writes the output of a recording at its times, without changing it. It returns at the end of the recording, or when the context
// ends; then it returns the context's cause. Events that are not output are skipped.
func Play(ctx context.Context, recording *cast.Reader, out io.Writer, o Options) error {
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.Idle == 0 {
		o.Idle = recording.Header().Idle
	}
	due, last := time.Now(), time.Duration(0)
	for {
		e, err := recording.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Kind != cast.Output {
			continue
		}
		pause := e.Time - last
		last = e.Time
		if o.Idle > 0 {
			pause = min(pause, o.Idle)
		}
		due = due.Add(o.scaled(pause))
		if now := time.Now(); now.Sub(due) > maxBehind {
			due = now
		}
		if err := waitUntil(ctx, due); err != nil {
			return err
		}
		if _, err := io.WriteString(out, e.Text); err != nil {
			return err
		}
	}
}

// scaled returns how long a pause lasts at this speed.
func (o Options) scaled(pause time.Duration) time.Duration {
	return time.Duration(min(float64(pause)/o.Speed, float64(cast.MaxTime)))
}

// waitUntil waits until a time, or until the context ends. It also looks at the context if the time has passed.
func waitUntil(ctx context.Context, due time.Time) error {
	pause := time.Until(due)
	if pause <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reset brings a terminal back to its usual state after output that was cut off in the middle, or that has left modes behind. It ends an
// unfinished control sequence, leaves the alternate screen, and switches off the modes of the mouse, of pasted text and of the keypad,
// margins, colors and the line-drawing characters. The cursor becomes visible and stays where it is, and lines wrap.
const Reset = "\x18\x1b\\" +
	"\x1b7\x1b[?1049l" + // saved first, because leaving a screen that was not entered restores the cursor
	"\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l" +
	"\x1b[?2004l\x1b[?2026l\x1b[?1l\x1b>" +
	"\x1b[<u\x1b[>4;0m" +
	"\x1b[?5l\x1b[?7h\x1b[4l" +
	"\x1b7\x1b[r\x1b8" + // setting the margins moves the cursor
	"\x0f\x1b(B\x1b[0m\x1b[?25h\x1b[0 q"
