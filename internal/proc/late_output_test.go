//go:build linux

package proc

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
)

// A lateSink ends its last stream just after the time for which the exit of a failed command
// waits for late output.
type lateSink struct {
	*recorder
	over    atomic.Pointer[time.Time] // the end of that time; nil: the command has not exited
	streams atomic.Int32              // streams that have not ended
}

func (s *lateSink) EndStream(outlog.Stream) {
	if s.streams.Add(-1) > 0 {
		return
	}
	for over := s.over.Load(); over == nil || time.Now().Before(*over); over = s.over.Load() {
		if over == nil {
			runtime.Gosched()
		}
	}
}

// The output of a failed command may end at the very moment at which the exit stops waiting
// for it. On one processor the order of events is fixed: the last copier returns, and the
// goroutine of the exit runs next, before any other goroutine has seen the copiers end.
func TestOutputEndsAsTheExitStopsWaiting(t *testing.T) {
	s := newSupervisor(t, Config{})
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 5 {
		sink := &lateSink{recorder: newRecorder(t)}
		sink.streams.Store(2)
		spec, _ := launched(t, "exit 1", nil)
		spec.LateOutput = time.Millisecond
		spec.Launcher.Ended = func() {
			over := time.Now().Add(spec.LateOutput + 100*time.Microsecond)
			sink.over.Store(&over)
		}
		p, err := s.Start(t.Context(), spec, sink)
		if err != nil {
			t.Fatal(err)
		}
		awaitDone(t, p)
		if eventOrder := sink.eventOrder(); eventOrder != "exit close" {
			t.Fatalf("events: %s", eventOrder)
		}
	}
}
