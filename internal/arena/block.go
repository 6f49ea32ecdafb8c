package arena

import (
	"fmt"

	"github.com/tetherexec/tether/internal/crash"
)

// spareMemory is how much memory of free blocks is kept for the next logs. Blocks are
// taken last in, first out: pages that were just used are in the caches of the processor,
// and need not be cleared by the kernel.
const spareMemory = 4 << 20

// A Block holds a run of entries of one log: records, and the bytes of the entries. The
// first entries of a log that are not output are in its slot, in a block without data.
//
// The log's lock guards a block, except for the memory of entries that do not change any
// more.
type Block struct {
	BlockWords        // what does not change, copied
	count      *Word  // how many records are valid
	slot       *Slot  // for the block in a slot; nil: a block of the arena
	arena      *Arena // the arena
	index      uint64 // number in the arena

	reserved int // records whose pages are allocated
	used     int // bytes of data that may have pages
}

// blockTable says which blocks are free. The lock of the arena guards it.
type blockTable struct {
	free  []*Block // with pages; the last is taken first
	spare int64    // bytes of their pages
	holes []uint64 // without pages; below blocksUsed
}

var (
	pointBlockHeader = crash.NewPoint("arena.block.header")
	pointBlocksUsed  = crash.NewPoint("arena.blocks.used")
	pointRecord      = crash.NewPoint("arena.block.record")
	pointPunch       = crash.NewPoint("arena.punch")
)

// NewBlock prepares a free block for the entries of s from number first on. start is how
// many bytes of output the log had before, prev is the block before it in the log; nil:
// none. The block belongs to the log as soon as s.Off points into its data: until then a
// process that dies leaves it free.
func (a *Arena) NewBlock(s *Slot, first, start uint64, prev *Block) (*Block, error) {
	b, err := a.takeBlock()
	if err != nil {
		return nil, err
	}
	if b.reserved < headRecords { // it was not in use before, or has lost its pages
		if err := a.allocate(a.blockAt(b.index), blockHead); err != nil {
			a.giveBlock(b)
			return nil, err
		}
		b.reserved = headRecords
	}
	words := at[BlockWords](a.mem, a.blockAt(b.index))
	*words = BlockWords{Serial: s.Serial.Load(), First: first, Start: start}
	if prev != nil && prev.slot == nil {
		words.prev = prev.index + 1
	}
	b.BlockWords, b.count = *words, &words.count
	pointBlockHeader.Passed()
	return b, nil
}

func (a *Arena) takeBlock() (*Block, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := &a.blocks
	if n := len(t.free); n > 0 {
		b := t.free[n-1]
		t.free[n-1], t.free = nil, t.free[:n-1]
		t.spare -= b.pages()
		return b, nil
	}
	if n := len(t.holes); n > 0 {
		index := t.holes[n-1]
		t.holes = t.holes[:n-1]
		return &Block{arena: a, index: index}, nil
	}
	index := a.header.blocksUsed.Load()
	if index == a.blockCount {
		return nil, fmt.Errorf("%w: all %d blocks are in use", ErrFull, index)
	}
	a.header.blocksUsed.Store(index+1, pointBlocksUsed)
	return &Block{arena: a, index: index}, nil
}

// SmallBlock returns the block in the slot, for the entries before any output.
func (s *Slot) SmallBlock() *Block {
	return &Block{BlockWords: BlockWords{Serial: s.Serial.Load(), First: 1}, count: &s.small, slot: s, reserved: smallRecords}
}

// Free gives the block back. The log must have stored before that it does not need the
// block any more. used is how many bytes of data were written to it.
func (b *Block) Free(used int) {
	if b.slot != nil {
		return
	}
	b.used = max(b.used, used)
	b.arena.giveBlock(b)
}

// giveBlock adds a free block. If there is too much spare memory now, the block that was
// free for longest loses its pages.
func (a *Arena) giveBlock(b *Block) {
	a.mu.Lock()
	a.blocks.giveLocked(b)
	for a.blocks.spare > spareMemory {
		a.trimLocked()
	}
	a.mu.Unlock()
}

func (t *blockTable) giveLocked(b *Block) {
	t.free = append(t.free, b)
	t.spare += b.pages()
}

// trimLocked punches the block that was free for longest. It releases the lock meanwhile.
func (a *Arena) trimLocked() {
	t := &a.blocks
	b := t.free[0]
	t.free[0], t.free = nil, t.free[1:]
	t.spare -= b.pages()
	a.mu.Unlock()
	a.punch(a.blockAt(b.index), blockSize)
	pointPunch.Passed()
	a.mu.Lock()
	t.holes = append(t.holes, b.index)
}

// pages is how many bytes of memory the block takes at most.
func (b *Block) pages() int64 {
	return roundUp(blockHead+int64(b.used)) + roundUp(int64(max(0, b.reserved-headRecords)*recordSize))
}

// FreeMemory returns how many bytes of memory free blocks take, and how many blocks are
// in use.
func (a *Arena) FreeMemory() (spare int64, used int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.blocks.spare, int(a.header.blocksUsed.Load()) - len(a.blocks.free) - len(a.blocks.holes)
}

// Offset is the position of the block's data in the file.
func (b *Block) Offset() int64 {
	if b.slot != nil {
		return 0
	}
	return b.arena.blockAt(b.index) + blockHead
}

// Data is the memory of the block's data. It is read, and never stored to: its pages may
// be missing.
func (b *Block) Data() []byte {
	if b.slot != nil {
		return nil
	}
	return b.arena.mem[b.Offset() : b.Offset()+BlockData : b.Offset()+BlockData]
}

// Write writes p to the data from offset on. It returns an error if there is no memory.
func (b *Block) Write(p []byte, offset int) error {
	return b.arena.write(p, b.Offset()+int64(offset))
}

// Count is the number of valid records.
func (b *Block) Count() int { return int(b.count.Load()) }

// Record returns a record.
func (b *Block) Record(i int) Record { return *b.record(i) }

// End is where the bytes of the last entry end in the data.
func (b *Block) End() int {
	if n := b.Count(); n > 0 {
		return int(b.record(n - 1).end())
	}
	return 0
}

// record returns the memory of a record. The first records are before the data, the others
// grow downwards from its end.
func (b *Block) record(i int) *Record {
	switch {
	case b.slot != nil:
		return &b.slot.smallRecs[i]
	case i < headRecords:
		return at[Record](b.arena.mem, b.arena.blockAt(b.index)+blockHead-int64((headRecords-i)*recordSize))
	}
	return at[Record](b.arena.mem, b.Offset()+BlockData-int64((i-headRecords+1)*recordSize))
}

// Reserve makes sure that n records can be stored.
func (b *Block) Reserve(n int) error {
	if n <= b.reserved {
		return nil
	}
	if b.slot != nil {
		return fmt.Errorf("%w: a slot has room for %d records", ErrFull, smallRecords)
	}
	const step = page / recordSize // records in a page
	n = headRecords + (n-headRecords+step-1)/step*step
	size := int64((n - headRecords) * recordSize)
	if err := b.arena.allocate(b.Offset()+BlockData-size, size); err != nil {
		return err
	}
	b.reserved = n
	return nil
}

// Put stores record i, for which there must be room (Reserve). It is valid after Commit.
func (b *Block) Put(i int, r Record) {
	*b.record(i) = r
	pointRecord.Passed()
}

// Commit makes the first n records valid.
func (b *Block) Commit(n int, behind *crash.Point) { b.count.Store(uint64(n), behind) }

// Extend moves the end of the bytes of entry i.
func (b *Block) Extend(i, end int, behind *crash.Point) { b.record(i).setEnd(end, behind) }
