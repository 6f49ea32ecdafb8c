//go:build amd64 || arm64

package session

import (
	"errors"
	"slices"
	"testing"

	"github.com/tetherexec/tether/internal/arena"
)

// A program can die between recording a write and accepting it. The next write that is accepted has the same ordinal, and is the
// only one that took effect.
func TestRecordedWriteThatWasNotAccepted(t *testing.T) {
	t.Parallel()
	var r recordedStart
	for _, row := range []struct {
		id      string
		ordinal uint64
	}{{"accepted", 1}, {"recorded only", 2}, {"accepted instead", 2}, {"recorded last", 3}, {"a signal", 0}, {"another signal", 0}} {
		r.addDone(recordedAction{note: new(arena.Note), key: writeKey{id: row.id}, ordinal: row.ordinal})
	}
	var done []string
	for _, a := range r.done {
		if r.tookEffect(a, 2) {
			done = append(done, a.key.id)
		}
	}
	if want := []string{"accepted", "accepted instead", "a signal", "another signal"}; !slices.Equal(done, want) {
		t.Errorf("these took effect: %q, want %q", done, want)
	}
	if n := len(r.notes()); n != 7 {
		t.Errorf("%d notes", n)
	}
}

// A command that is terminated while it is starting is recorded as such, because a program that takes it over has to end it. If the start
// has failed, its slot may have another user already.
func TestTerminationOfAStartIsRecorded(t *testing.T) {
	t.Parallel()
	a, err := arena.Create(arena.Config{Slots: 8, Blocks: 8, Journal: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for failed, want := range map[bool]uint64{false: 1, true: 0} {
		slot, err := a.TakeSlot()
		if err != nil {
			t.Fatal(err)
		}
		p := &Process{ID: "p", record: &slotRecord{slot: slot}}
		if failed {
			p.startErr = errors.New("no such file")
		}
		s := &Session{processes: processes{byID: map[string]*Process{"p": p}}}
		if running := s.Terminate("p", true); !running || slot.Ending.Load() != want {
			t.Errorf("start failed: %v; terminated: %v, recorded: %d", failed, running, slot.Ending.Load())
		}
	}
}
