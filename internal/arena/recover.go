package arena

import (
	"fmt"
	"os"
	"slices"
	"unsafe"
)

// Open maps the arena in f, which a process of tether made, and finds what is in use. The arena
// owns f, unless there is an error. A damaged slot or note is no error: see Slot.Err and Journal.Damage.
func Open(f *os.File) (*Arena, error) { return open(f, true) }

// OpenPath opens the file of an arena that was made with Config.Path, for Open or Inspect.
func OpenPath(path string) (*os.File, error) { return openPath(path) }

// Inspect is Open without the right to change anything, for a program that finds out
// whether it can read the arena while another one uses it. All methods that take, free or append
// anything end the program. A damaged journal is an error.
func Inspect(f *os.File) (*Arena, error) { return open(f, false) }

func open(f *os.File, write bool) (*Arena, error) {
	g, err := readGeometry(f)
	if err != nil {
		return nil, fmt.Errorf("open the arena: %w", err)
	}
	a, err := attach(f, g, write)
	if err != nil {
		return nil, err
	}
	err = a.recover(write)
	if !write && err == nil {
		err = a.journal.damage
	}
	if err != nil {
		_ = unmapFile(a.mem)
		return nil, fmt.Errorf("open the arena: %w", err)
	}
	return a, nil
}

// readGeometry checks the header, before the file is mapped.
func readGeometry(f *os.File) (geometry, error) {
	if err := checkFile(f); err != nil {
		return geometry{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return geometry{}, err
	}
	var words [(unsafe.Sizeof(header{}) + 7) / 8]uint64 // aligned
	b := unsafe.Slice((*byte)(ptr(&words[0])), unsafe.Sizeof(words))
	if info.Size() < page {
		return geometry{}, fmt.Errorf("%w: truncated", ErrDamaged)
	}
	if _, err := f.ReadAt(b, 0); err != nil {
		return geometry{}, fmt.Errorf("read the header: %w", err)
	}
	h := at[header](b, 0)
	switch {
	case string(h.magic[:]) != magic:
		return geometry{}, fmt.Errorf("%w: this is not an arena", ErrDamaged)
	case h.version > Version:
		return geometry{}, fmt.Errorf("version %d, this program reads up to %d: %w", h.version, Version, ErrNewer)
	case h.version == 0 || h.check != h.geometry.checksum() || !h.geometry.valid():
		return geometry{}, fmt.Errorf("%w: the header is wrong", ErrDamaged)
	case info.Size() != h.geometry.size():
		return geometry{}, fmt.Errorf("%w: %d bytes instead of %d", ErrDamaged, info.Size(), h.geometry.size())
	}
	return h.geometry, nil
}

// recover finds out which slots and blocks are in use.
func (a *Arena) recover(write bool) error {
	slots, blocks := a.header.slotsUsed.Load(), a.header.blocksUsed.Load()
	if slots > a.slotCount || blocks > a.blockCount {
		return fmt.Errorf("%w: %d of %d slots and %d of %d blocks are in use", ErrDamaged, slots, a.slotCount, blocks, a.blockCount)
	}
	if err := a.journal.open(); err != nil {
		return err
	}
	taken := make([]bool, blocks)
	for i := range slots {
		s := a.slotAtIndex(i)
		if s.State.Load() == SlotFree {
			a.slots.free = append(a.slots.free, i)
			continue
		}
		a.slots.add(s)
		s.err = s.findBlocks(taken)
	}
	if write {
		a.freeRest(taken)
	}
	return nil
}

// freeRest makes the blocks that no log has free, and takes their pages away.
func (a *Arena) freeRest(taken []bool) {
	for i := 0; i < len(taken); i++ {
		from := i
		for i < len(taken) && !taken[i] {
			a.blocks.holes = append(a.blocks.holes, uint64(i))
			i++
		}
		if i > from {
			a.punch(a.blockAt(uint64(from)), int64(i-from)*blockSize)
		}
	}
}

// findBlocks finds the blocks of the slot's log and marks them as taken. Blocks of a
// damaged log that were found stay taken, until the slot is freed.
func (s *Slot) findBlocks(taken []bool) error {
	off := s.Off.Load()
	if serial := s.Serial.Load(); serial == 0 || serial > s.arena.header.serial.Load() {
		return fmt.Errorf("slot %d is %w: its serial number is %d", s.index, ErrDamaged, serial)
	}
	if s.small.Load() > smallRecords {
		return fmt.Errorf("slot %d is %w: it has %d records", s.index, ErrDamaged, s.small.Load())
	}
	if off == 0 || s.LogEnded.Load() != 0 {
		return nil
	}
	base := uint64(s.arena.blockAt(0))
	if off < base {
		return fmt.Errorf("slot %d is %w: its log is at %d", s.index, ErrDamaged, off)
	}
	index := (off - base) / blockSize
	if off < base+index*blockSize+blockHead {
		return fmt.Errorf("slot %d is %w: its log is at %d", s.index, ErrDamaged, off)
	}
	floor := max(s.First.Load(), s.Memory.Load(), 1)
	defer func() { slices.Reverse(s.found) }()
	for next := uint64(0); ; {
		b, err := s.foundBlock(index, next, taken)
		if err != nil {
			return fmt.Errorf("slot %d is %w: %w", s.index, ErrDamaged, err)
		}
		s.found = append(s.found, b)
		switch {
		case b.First <= floor:
			return nil
		case b.prev == 0 && b.First == 1+s.small.Load():
			return nil
		case b.prev == 0:
			return fmt.Errorf("slot %d is %w: entries %d to %d are missing", s.index, ErrDamaged, floor, b.First-1)
		}
		index, next = b.prev-1, b.First
	}
}

// foundBlock returns a block of the slot's log. next is the number of the entry that
// follows its last one; 0: it is not known.
func (s *Slot) foundBlock(index, next uint64, taken []bool) (*Block, error) {
	if index >= uint64(len(taken)) {
		return nil, fmt.Errorf("there is no block %d", index)
	}
	if taken[index] {
		return nil, fmt.Errorf("block %d belongs to two logs", index)
	}
	words := at[BlockWords](s.arena.mem, s.arena.blockAt(index))
	b := &Block{BlockWords: *words, count: &words.count, arena: s.arena, index: index, used: BlockData}
	count := words.count.Load()
	switch {
	case b.Serial != s.Serial.Load():
		return nil, fmt.Errorf("block %d belongs to another log", index)
	case count > uint64(maxRecords):
		return nil, fmt.Errorf("block %d has %d records", index, count)
	case b.First == 0 || b.First > 1<<62 || next != 0 && b.First+count != next:
		return nil, fmt.Errorf("block %d has entries from number %d on", index, b.First)
	}
	b.reserved = max(headRecords, int(count))
	taken[index] = true
	return b, nil
}

// maxRecords is how many records fit into a block, if it has no data.
const maxRecords = headRecords + BlockData/recordSize

// Found returns the blocks of the slot's log that Open found, oldest first.
func (s *Slot) Found() []*Block { return s.found }

// TakeFound makes the caller of Found the owner of the blocks.
func (s *Slot) TakeFound() { s.found = nil }
