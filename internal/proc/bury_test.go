//go:build linux && (amd64 || arm64)

package proc

import (
	"testing"

	"github.com/tetherexec/tether/internal/arena"
)

// After the death of a keeper each slot is one of a process that has ended. What was recorded before stays, and a server that dies while
// it buries the slots leaves the rest to the next one.
func TestBury(t *testing.T) {
	t.Parallel()
	set := func(words ...func(*arena.Slot)) []func(*arena.Slot) { return words }
	store := func(word func(*arena.Slot) *arena.Word, v uint64) func(*arena.Slot) {
		return func(s *arena.Slot) { word(s).Store(v, pointDetail) }
	}
	state := func(v uint64) func(*arena.Slot) {
		return store(func(s *arena.Slot) *arena.Word { return &s.State }, v)
	}
	pid := func(s *arena.Slot) { s.Pid.Store(12345, pointDetail) }
	exit := func(code uint64) func(*arena.Slot) {
		return func(s *arena.Slot) { s.ExitCode.Store(code, pointDetail); s.Exited.Store(1, pointDetail) }
	}
	ending := func(v uint64) func(*arena.Slot) {
		return store(func(s *arena.Slot) *arena.Word { return &s.Ending }, v)
	}
	for name, row := range map[string]struct {
		before []func(*arena.Slot)
		buried bool
		known  bool
		code   int64
	}{
		"never started":           {set(), false, true, 0},
		"never cloned":            {set(state(slotStarting)), false, true, 0},
		"not executed":            {set(pid, func(s *arena.Slot) { s.Failure.Store(2, pointDetail) }, state(slotStarting)), false, true, 0},
		"maybe executed":          {set(pid, state(slotStarting)), true, false, -1},
		"running":                 {set(pid, state(slotRunning)), true, false, -1},
		"being terminated":        {set(pid, state(slotRunning), ending(endingAsked)), true, false, -1},
		"exited":                  {set(pid, state(slotRunning), exit(3)), true, true, 3},
		"exited after its time":   {set(pid, state(slotRunning), ending(endingTime), exit(137)), true, true, 137},
		"released":                {set(pid, state(slotReleased), exit(0)), true, true, 0},
		"buried in part":          {set(pid, state(slotRunning), ending(endingLost)), true, false, -1},
		"of a version that comes": {set(pid, state(99)), true, false, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := arena.Create(arena.Config{Slots: 8, Blocks: 8, Journal: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			slot, err := a.TakeSlot()
			if err != nil {
				t.Fatal(err)
			}
			slot.Cgroup.Store(7, pointDetail)
			slot.LimitGroup.Store(7, pointDetail)
			for _, word := range row.before {
				word(slot)
			}
			lost := 0
			if row.buried && !row.known {
				lost = 1
			}
			for times := range 2 {
				if got := Bury(a); got != lost {
					t.Errorf("%d processes are lost, want %d", got, lost)
				}
				lost = 0
				buried, known := Buried(slot)
				if buried != row.buried || known != row.known || int64(slot.ExitCode.Load()) != row.code || (slot.Cgroup.Load() == 0) != buried || (slot.LimitGroup.Load() == 0) != buried {
					t.Errorf("time %d: buried %v, known %v, code %d, cgroup %d", times, buried, known, int64(slot.ExitCode.Load()), slot.Cgroup.Load())
				}
			}
			if claimed := Claimed(a); row.buried && len(claimed) > 0 {
				t.Errorf("claimed: %v", claimed)
			}
		})
	}
}
