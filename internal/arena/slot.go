package arena

import (
	"fmt"

	"github.com/tetherexec/tether/internal/crash"
)

// Values of SlotWords.State that this package knows. Larger ones belong to the package
// that uses the slot.
const (
	SlotFree  = 0
	SlotTaken = 1
)

// A Slot has all that changes about one process.
type Slot struct {
	*SlotWords
	arena *Arena
	index uint64

	found []*Block // the blocks of the log that Open found, oldest first, until TakeFound
	err   error    // what is damaged
}

// slotTable says which slots are free. The lock of the arena guards it.
type slotTable struct {
	used map[uint64]*Slot
	free []uint64 // below slotsUsed; the last is taken first
}

var (
	pointSlotSerial = crash.NewPoint("arena.slot.serial")
	pointSlotClear  = crash.NewPoint("arena.slot.clear")
	pointSlotTake   = crash.NewPoint("arena.slot.take")
	pointSlotFree   = crash.NewPoint("arena.slot.free")
	pointSlotUsed   = crash.NewPoint("arena.slots.used")
)

// TakeSlot returns a slot whose words are all 0 except for State and Serial.
func (a *Arena) TakeSlot() (*Slot, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, err := a.freeSlotLocked()
	if err != nil {
		return nil, err
	}
	serial := a.header.serial.Load() + 1
	a.header.serial.Store(serial, pointSlotSerial)
	*s.SlotWords = SlotWords{} // State is 0, so these stores do not count yet
	pointSlotClear.Passed()
	s.Serial.Store(serial, pointSlotClear)
	s.State.Store(SlotTaken, pointSlotTake)
	a.slots.add(s)
	return s, nil
}

func (t *slotTable) add(s *Slot) {
	if t.used == nil {
		t.used = map[uint64]*Slot{}
	}
	t.used[s.index] = s
}

// freeSlotLocked takes a slot out of the free ones. Its pages are allocated.
func (a *Arena) freeSlotLocked() (*Slot, error) {
	if n := len(a.slots.free); n > 0 {
		index := a.slots.free[n-1]
		a.slots.free = a.slots.free[:n-1]
		return a.slotAtIndex(index), nil
	}
	index := a.header.slotsUsed.Load()
	if index == a.slotCount {
		return nil, fmt.Errorf("%w: all %d slots are in use", ErrFull, index)
	}
	if err := a.allocate(a.slotAt(index), SlotSize); err != nil {
		return nil, err
	}
	a.header.slotsUsed.Store(index+1, pointSlotUsed)
	return a.slotAtIndex(index), nil
}

func (a *Arena) slotAtIndex(index uint64) *Slot {
	return &Slot{SlotWords: at[SlotWords](a.mem, a.slotAt(index)), arena: a, index: index}
}

// Free gives the slot back. Its log must be ended, if it was opened.
func (s *Slot) Free() {
	s.State.Store(SlotFree, pointSlotFree)
	s.arena.mu.Lock()
	defer s.arena.mu.Unlock()
	delete(s.arena.slots.used, s.index)
	s.arena.slots.free = append(s.arena.slots.free, s.index)
	for _, b := range s.found {
		s.arena.blocks.giveLocked(b)
	}
	s.found = nil
}

// Index is the number of the slot, from 0.
func (s *Slot) Index() int { return int(s.index) }

// Arena returns the arena of the slot.
func (s *Slot) Arena() *Arena { return s.arena }

// Err says what Open found to be damaged in the slot or its log; nil: nothing.
func (s *Slot) Err() error { return s.err }

// InputRange is the part of the file that holds the input of the process. It is not mapped.
func (s *Slot) InputRange() (offset, size int64) {
	return s.arena.inputAt(s.index), InputSize
}

// Slots returns the slots that are in use, by index.
func (a *Arena) Slots() []*Slot {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []*Slot
	for i := range a.header.slotsUsed.Load() {
		if s := a.slots.used[i]; s != nil {
			list = append(list, s)
		}
	}
	return list
}
