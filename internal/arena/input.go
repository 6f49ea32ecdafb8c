package arena

import (
	"fmt"

	"github.com/tetherexec/tether/internal/crash"
)

// An Input is the standard input of a process that it has not read yet. Each process has a range
// of the file of its own. Accepted bytes are written behind the end, and then the end and the
// ordinal of the write become valid together, by one store. The kernel moves the position in the
// same system call in which it passes bytes on, so each byte reaches the process once.
//
// The kernel passes pages on by reference: bytes that a pipe still has must not be overwritten. So
// a page is used again only after it was taken away as a whole.
//
// One goroutine at a time may use an Input.
type Input struct{ slot *Slot }

var (
	pointInputBytes = crash.NewPoint("arena.input.bytes")
	pointInputPair  = crash.NewPoint("arena.input.pair")
	pointInput      = crash.NewPoint("arena.input.accepted")
	pointInputSent  = crash.NewPoint("arena.input.sent")
	pointInputReset = crash.NewPoint("arena.input.reset")
)

// inputReuse is how much of the range is used before it is used again from its beginning, once
// all input was passed on.
const inputReuse = 64 << 10

// Input returns the input of the slot.
func (s *Slot) Input() Input { return Input{s} }

func (in Input) base() uint64 { return uint64(in.slot.arena.inputAt(in.slot.index)) }

// pair returns the end of the accepted input and the ordinal of the last accepted write.
func (in Input) pair() (end, writes uint64) {
	i := in.slot.InputIndex.Load() & 1
	return max(in.slot.InputEnd[i].Load(), in.base()), in.slot.InputWrites[i].Load()
}

// commit makes the end and the ordinal valid together.
func (in Input) commit(end, writes uint64, behind *crash.Point) {
	i := in.slot.InputIndex.Load() & 1
	in.slot.InputEnd[1-i].Store(end, pointInputPair)
	in.slot.InputWrites[1-i].Store(writes, pointInputPair)
	in.slot.InputIndex.Store(1-i, behind)
}

// position is where the next bytes for the process are. A position behind the end was not moved
// back yet.
func (in Input) position() uint64 {
	end, _ := in.pair()
	return min(max(in.slot.InputPos.Load(), in.base()), end)
}

// settle moves the position back if that was not done yet, before the end moves again.
func (in Input) settle() {
	if pos := in.position(); pos != in.slot.InputPos.Load() {
		in.slot.InputPos.Store(pos, pointInputReset)
	}
}

// Pending is how many accepted bytes were not passed on yet.
func (in Input) Pending() int {
	end, _ := in.pair()
	return int(end - in.position())
}

// Writes is the ordinal of the last accepted write.
func (in Input) Writes() uint64 {
	_, writes := in.pair()
	return writes
}

// Accept accepts a write. note is called before the write becomes valid, with its ordinal. A write
// whose ordinal is above Writes was not accepted. It returns ErrFull if there is no room
// before all input was passed on.
func (in Input) Accept(p []byte, note func(ordinal uint64) error) error {
	end, writes := in.pair()
	in.settle()
	if in.Pending() == 0 && end-in.base() >= inputReuse {
		in.restart(end, writes)
		end = in.base()
	}
	if end+uint64(len(p)) > in.base()+InputSize {
		return fmt.Errorf("%w: %d bytes of input", ErrFull, len(p))
	}
	if err := in.slot.arena.write(p, int64(end)); err != nil {
		return err
	}
	pointInputBytes.Passed()
	if note != nil {
		if err := note(writes + 1); err != nil {
			return err
		}
	}
	in.commit(end+uint64(len(p)), writes+1, pointInput)
	return nil
}

// restart goes back to the beginning of the range, when all input was passed on. If this process
// dies between the two stores, the position is behind the end, which means the same.
func (in Input) restart(end, writes uint64) {
	in.slot.arena.punch(int64(in.base()), roundUp(int64(end-in.base())))
	in.commit(in.base(), writes, pointInputReset)
	in.slot.InputPos.Store(in.base(), pointInputReset)
}

// Send passes accepted bytes on to a pipe or a terminal, as many as it takes.
func (in Input) Send(fd int) (int, error) {
	pending := in.Pending()
	if pending == 0 {
		return 0, nil
	}
	in.settle()
	n, err := in.slot.arena.sendfile(fd, &in.slot.InputPos, pending)
	if n > 0 {
		pointInputSent.Passed()
	}
	return n, err
}

// Trim takes away the memory of input that was passed on. from is what an earlier call returned, 0
// at first.
func (in Input) Trim(from int64) int64 {
	base, to := int64(in.base()), int64(in.position())/page*page
	if from = max(from, base); to-from < inputReuse {
		return min(from, to)
	}
	in.slot.arena.punch(from, to-from)
	return to
}

// Clear takes away all memory of the input, before the slot is freed.
func (in Input) Clear() {
	if end, _ := in.pair(); end > in.base() {
		in.slot.arena.punch(int64(in.base()), roundUp(int64(end-in.base())))
	}
}
