package outlog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/tetherexec/tether/internal/arena"
)

// Found says what Reopen found, apart from the entries.
type Found struct {
	Rest           int  // bytes that had left their pipe and belonged to no entry yet
	Empty          bool // the newest block had no entry yet
	Spooled        int  // segments in the spool file
	Unused         int  // segments in the spool file that were not needed there, or not any more
	CloseDelivered bool // the client has got the close; Config.CloseDelivered is not called again
}

// Reopen returns the log in the slot of c, as another process left it: the same entries with
// their numbers and times. spool is its spool file; nil: it had none, or Reopen finds it by its name (Pool.KeepNames). The log owns the file, unless
// there is an error. Config.Acks must be as it was. An error that is arena.ErrDamaged means that
// there is no such log.
func Reopen(pool *Pool, c Config, spool *os.File) (*Log, Found, error) {
	l := New(pool, c)
	r := reopening{log: l, h: &l.history, slot: c.Slot, name: pool.name(c.Slot.Serial.Load())}
	opened := false
	if spool == nil && r.name != "" {
		var err error
		if spool, err = os.OpenFile(r.name, os.O_RDWR, 0); err == nil {
			opened = true
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, Found{}, fmt.Errorf("open the log in slot %d: %w", c.Slot.Index(), err)
		}
	}
	if err := r.run(spool); err != nil {
		if opened {
			spool.Close()
		}
		return nil, Found{}, fmt.Errorf("open the log in slot %d: %w", c.Slot.Index(), err)
	}
	return l, r.found, nil
}

// A reopening is a Reopen in progress.
type reopening struct {
	log   *Log
	h     *history
	slot  *arena.Slot
	name  string // of the spool file; "": it has none
	found Found
}

func (r *reopening) run(file *os.File) error {
	if err := r.slot.Err(); err != nil {
		return err
	}
	if r.slot.LogEnded.Load() != 0 {
		r.log.ended, r.h.slot = true, nil
		if file != nil {
			(&spool{file: file, name: r.name}).close()
		}
		return nil
	}
	r.h.exitSeq, r.h.exitCode = r.slot.LogExit.Load(), int(int64(r.slot.LogCode.Load()))
	sp, err := r.spooled(file)
	if err == nil {
		err = r.inMemory()
	}
	if err == nil {
		err = r.words()
	}
	if err != nil {
		return err
	}
	r.log.room.before = blockedBefore(r.slot)
	r.slot.TakeFound() // from now on the blocks belong to the log
	r.adoptSpool(sp)
	r.h.settle(time.Time{})
	return nil
}

// damaged returns an error that says what cannot be.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", arena.ErrDamaged, fmt.Sprintf(format, args...))
}

// spooled finds the segments in the spool file.
func (r *reopening) spooled(file *os.File) (*spool, error) {
	h := r.h
	first, memory := max(r.slot.First.Load(), 1), r.slot.Memory.Load()
	h.next = first
	switch {
	case file == nil && memory > first:
		return nil, damaged("the spool file with entries from %d to %d is missing", first, memory-1)
	case file == nil:
		return nil, nil
	}
	sp := &spool{file: file, name: r.name}
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("spool file: %w", err)
	}
	sp.size = (info.Size() + segmentCost - 1) / segmentCost
	segments, err := r.marked(sp, first, memory)
	if err != nil {
		return nil, err
	}
	for _, s := range segments {
		if s.first != h.next || len(h.segments) > 0 && s.start != h.output {
			return nil, damaged("entry %d is not in the spool file", h.next)
		}
		h.segments = append(h.segments, s)
		h.next += uint64(s.count)
		h.output = s.start + uint64(s.size)
		h.cost.unsent += s.cost
	}
	if h.next < memory {
		return nil, damaged("entry %d is not in the spool file", h.next)
	}
	return sp, nil
}

// marked returns the segments in a spool file that begin in the given range of numbers, in
// order.
func (r *reopening) marked(sp *spool, first, end uint64) (segments []*segment, err error) {
	known := map[uint64]bool{}
	for block := range sp.size {
		m, ok, err := sp.readMark(block)
		if err != nil && block < sp.size-1 { // the last block may be shorter than a mark
			return nil, fmt.Errorf("spool file: %w", err)
		}
		if !ok || m.serial != r.slot.Serial.Load() {
			continue
		}
		if known[m.first] || m.first < first || m.first >= end {
			r.found.Unused++ // a segment that is found twice was written twice, with the same content
			continue
		}
		if m.count == 0 || m.count > segmentCost/EntryOverhead+endRecords || m.size > segmentCost {
			return nil, damaged("a segment of %d entries in the spool file", m.count)
		}
		known[m.first] = true
		segments = append(segments, &segment{first: m.first, start: m.start, count: int(m.count), size: int(m.size),
			cost: int64(m.size) + int64(m.count)*EntryOverhead, block: block})
	}
	slices.SortFunc(segments, func(a, b *segment) int { return cmp.Compare(a.first, b.first) })
	r.found.Spooled = len(segments)
	return segments, nil
}

// inMemory adds the segments in the arena.
func (r *reopening) inMemory() error {
	blocks := r.slot.Found()
	if small := r.slot.SmallBlock(); small.Count() > 0 && r.h.next == 1 {
		blocks = append([]*arena.Block{small}, blocks...)
	}
	for _, b := range blocks {
		if err := r.add(b); err != nil {
			return err
		}
	}
	h, tail := r.h, r.h.tail()
	switch {
	case tail == nil && h.next != 1, tail != nil && tail.content == nil:
		return damaged("the newest entries are missing")
	case tail == nil:
		return nil
	}
	if n := tail.count; n > 0 {
		h.lastAt = time.Unix(0, tail.content.records[n-1].at)
	} else {
		r.found.Empty = true
	}
	h.stream = Stream(r.slot.Stream.Load())
	r.found.Rest = h.filled(tail.content) - tail.size
	if rest := r.found.Rest; rest < 0 || rest > MaxEntry || tail.cost+int64(rest) > segmentCost+(fillRecords+endRecords)*EntryOverhead ||
		rest > 0 && (h.stream < Stdout || h.stream > PTY || h.closeSeq != 0) {
		return damaged("%d bytes of stream %d after entry %d", rest, h.stream, h.next-1)
	}
	if !tail.content.hasData() {
		return nil
	}
	return h.reserve(tail)
}

// add adds the segment in a block.
func (r *reopening) add(b *arena.Block) error {
	h := r.h
	if len(h.segments) == 0 {
		h.output = b.Start
	}
	if b.First != h.next || b.Start != h.output {
		return damaged("entry %d follows %d", b.First, h.next-1)
	}
	if err := r.check(b); err != nil {
		return err
	}
	h.addSegment(&content{block: b, data: b.Data()})
	h.sync()
	return nil
}

// check checks the records of a block.
func (r *reopening) check(b *arena.Block) error {
	start, cost, closed, exited := 0, 0, r.h.closeSeq != 0, r.h.exitSeq != 0 && r.h.exitSeq < b.First
	for i := range b.Count() {
		rec := fromArena(b.Record(i))
		size := int(rec.end) - start
		cost += size + EntryOverhead
		ok := size >= 0 && size <= MaxEntry && !closed && cost <= segmentCost+(fillRecords+endRecords)*EntryOverhead
		switch rec.kind {
		case Output:
			ok = ok && size > 0 && rec.stream >= Stdout && rec.stream <= PTY
		case Exited:
			ok = ok && size == 0 && !exited
			exited = true
		case Closed:
			ok = ok && size == 0
			closed = true
		default:
			ok = false
		}
		if !ok {
			return damaged("entry %d: %d bytes of kind %d, stream %d", b.First+uint64(i), size, rec.kind, rec.stream)
		}
		start = int(rec.end)
	}
	return nil
}

// words takes over what readers and connections have got.
func (r *reopening) words() error {
	h, last := r.h, r.h.next-1
	if len(h.segments) > 0 {
		h.cost.dropped = int64(h.segments[0].start)
	}
	d := &r.log.delivery
	h.sealed, d.sent, d.delivered = r.slot.Sealed.Load(), r.slot.Sent.Load(), r.slot.Delivered.Load()
	released := r.slot.Released.Load()
	first := max(r.slot.First.Load(), 1)
	if max(h.sealed, d.sent, d.delivered, released, h.exitSeq) > last || first > released+1 {
		return damaged("entries up to %d; %d were read, %d sent, %d delivered, %d released, those before %d forgotten, %d is the exit",
			last, h.sealed, d.sent, d.delivered, released, first, h.exitSeq)
	}
	h.release(released)
	if h.closeSeq != 0 && d.delivered >= h.closeSeq {
		d.closed, r.found.CloseDelivered = nil, true
	}
	return nil
}

// adoptSpool takes the spool file over.
func (r *reopening) adoptSpool(sp *spool) {
	if sp == nil {
		return
	}
	used := map[int64]bool{}
	for _, s := range r.h.segments {
		if s.content == nil {
			used[s.block] = true
		}
	}
	for block := range sp.size {
		if !used[block] {
			sp.punch(block)
			sp.holes = append(sp.holes, block)
		}
	}
	sp.disk = int64(len(used))
	r.log.overflow.spool = sp
	r.log.overflow.pool.adopt(int64(len(used)))
	r.log.offerLocked()
}
