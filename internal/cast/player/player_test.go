package player

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/cast"
)

const header = `{"version": 2, "width": 80, "height": 24}` + "\n"

// played plays a recording, and returns what it printed and when.
func played(t *testing.T, ctx context.Context, recording string, o Options, wrote func()) (string, error) {
	t.Helper()
	r, err := cast.NewReader(strings.NewReader(recording))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	began := time.Now()
	err = Play(ctx, r, writerFunc(func(text []byte) (int, error) {
		fmt.Fprintf(&got, "%v %s; ", time.Since(began), text)
		if wrote != nil {
			wrote()
		}
		return len(text), nil
	}), o)
	return got.String(), err
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestPlay(t *testing.T) {
	t.Parallel()
	const events = `[0.5, "o", "a"]
[1, "i", "typed"]
[3.5, "o", "b"]
[3.5, "r", "9x9"]
[3.5, "o", "c"]
[3.6, "o", "d"]
`
	const limited = `{"version": 2, "width": 80, "height": 24, "idle_time_limit": 2}` + "\n"
	for _, row := range []struct {
		recording string
		o         Options
		want      string
	}{
		{header + events, Options{}, "500ms a; 3.5s b; 3.5s c; 3.6s d; "},
		{header + events, Options{Speed: 4}, "125ms a; 875ms b; 875ms c; 900ms d; "},
		{header + events, Options{Speed: 2, Idle: time.Second}, "250ms a; 750ms b; 750ms c; 800ms d; "},
		{limited + events, Options{}, "500ms a; 2.5s b; 2.5s c; 2.6s d; "},
		{limited + events, Options{Idle: time.Second}, "500ms a; 1.5s b; 1.5s c; 1.6s d; "},
		{header, Options{}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got, err := played(t, t.Context(), row.recording, row.o, nil); got != row.want || err != nil {
				t.Errorf("%+v: %s, %v; want %s", row.o, got, err, row.want)
			}
		})
	}
}

// A player that was held up for a moment catches up; after a long stop it goes on from there.
func TestPlayAfterAStop(t *testing.T) {
	t.Parallel()
	for stop, want := range map[time.Duration]string{
		900 * time.Millisecond: "0s a; 900ms b; 1s c; 2s d; ",
		time.Minute:            "0s a; 1m0s b; 1m0.9s c; 1m1.9s d; ",
	} {
		synctest.Test(t, func(t *testing.T) {
			stops := []time.Duration{stop}
			got, err := played(t, t.Context(), header+`[0, "o", "a"]
[0.1, "o", "b"]
[1, "o", "c"]
[2, "o", "d"]`, Options{}, func() {
				for _, s := range stops {
					time.Sleep(s)
				}
				stops = nil
			})
			if got != want || err != nil {
				t.Errorf("a stop of %v: %s, %v; want %s", stop, got, err, want)
			}
		})
	}
}

// The end of the context ends a pause, and a recording without pauses.
func TestPlayUntilCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := errors.New("ended")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, ended)
		defer cancel()
		if got, err := played(t, ctx, header+"[59, \"o\", \"a\"]\n[3600, \"o\", \"b\"]", Options{}, nil); got != "59s a; " || !errors.Is(err, ended) {
			t.Errorf("%s, %v", got, err)
		}
		if got, err := played(t, ctx, header+`[0, "o", "a"]`, Options{}, nil); got != "" || !errors.Is(err, ended) {
			t.Errorf("%s, %v", got, err)
		}
	})
}

// A malformed event ends the recording behind the events before it.
func TestPlayMalformed(t *testing.T) {
	t.Parallel()
	got, err := played(t, t.Context(), header+"[0, \"o\", \"a\"]\nx", Options{Speed: MaxSpeed}, nil)
	if _, is := errors.AsType[*cast.FormatError](err); !is || !strings.HasSuffix(got, " a; ") {
		t.Errorf("%s, %v", got, err)
	}
}
