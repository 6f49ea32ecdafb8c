package outlog

import (
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/crash"
)

// This file has what differs between a log on the heap and one in an arena: where bytes and
// records are stored. A log in an arena is exact: if this process dies at any instruction, the
// next one finds all output that has left the pipe, under the numbers that a reader has seen.
// For that, each change is one store or one system call:
//
//   - New bytes go behind the last record, and the position slot.Off says how far they go. The
//     kernel moves it in the same call in which it takes the bytes from the pipe.
//   - A record becomes valid with the count of its block, a longer entry with its new end.
//     Until then, bytes behind the last record belong to slot.Stream, which is stored before
//     they come. The next call on the log, in this process or another, makes them an entry
//     (history.settle).
//   - A new block belongs to the log as soon as Off points into it.

// The crash points of a log.
var (
	pointSplice   = crash.NewPoint("outlog.splice")    // bytes from a pipe
	pointBetween  = crash.NewPoint("outlog.between")   // bytes from a terminal to the pipe in between
	pointWrite    = crash.NewPoint("outlog.write")     // bytes from this process
	pointOff      = crash.NewPoint("outlog.off")       // the position behind them
	pointBlock    = crash.NewPoint("outlog.block")     // a new block
	pointStream   = crash.NewPoint("outlog.stream")    // whose bytes follow
	pointCount    = crash.NewPoint("outlog.count")     // a new record
	pointEnd      = crash.NewPoint("outlog.end")       // a longer entry
	pointSealed   = crash.NewPoint("outlog.sealed")    // a reader has seen an entry
	pointSent     = crash.NewPoint("outlog.sent")      // a connection was sent an entry
	pointDeliver  = crash.NewPoint("outlog.delivered") // the client has an entry
	pointReleased = crash.NewPoint("outlog.released")  // an entry may be forgotten
	pointFirst    = crash.NewPoint("outlog.first")     // a segment is forgotten
	pointSpool    = crash.NewPoint("outlog.spool")     // a segment is in the spool file
	pointMark     = crash.NewPoint("outlog.mark")      // and marked as complete
	pointMemory   = crash.NewPoint("outlog.memory")    // and no longer needed in memory
	pointExit     = crash.NewPoint("outlog.exit")      // the exit, when its record leaves memory
	pointEnded    = crash.NewPoint("outlog.ended")     // the log is ended
	pointBlocked  = crash.NewPoint("outlog.blocked")   // the log is full, or is not any more
)

// The steps whose order makes a log exact. Tests replace them by wrong ones, to see
// that such mistakes are found.
var (
	moveBytes = func(slot *arena.Slot, pipe, n int) (int, error) {
		moved, err := slot.Arena().Splice(pipe, &slot.Off, n)
		if moved > 0 {
			pointSplice.Passed()
		}
		return moved, err
	}
	addRecord = func(b *arena.Block, i int, r arena.Record) {
		b.Put(i, r)
		b.Commit(i+1, pointCount)
	}
	repair = func(h *history) { h.settle(time.Time{}) }
)

// newContent returns the memory of a new segment, which follows the current last one.
func (h *history) newContent() (*content, error) {
	tail := h.tail()
	switch {
	case h.slot != nil:
		var last *arena.Block
		if tail != nil {
			last = tail.content.block
		}
		b, err := h.slot.Arena().NewBlock(h.slot, h.next, h.output, last)
		if err != nil {
			return nil, err
		}
		return &content{block: b, data: b.Data()}, nil
	case tail == nil:
		return new(content), nil
	}
	return takeContent(), nil // the log is busy: the next segment will be filled too
}

// grow adds an empty segment.
func (h *history) grow() error {
	c, err := h.newContent()
	if err != nil {
		return err
	}
	h.addSegment(c)
	if c.block != nil {
		h.slot.Off.Store(uint64(c.block.Offset()), pointBlock) // behind addSegment: settle compares the two
	}
	return nil
}

func (h *history) addSegment(c *content) {
	h.segments = append(h.segments, &segment{first: h.next, start: h.output, content: c})
}

// ends makes sure that there is a segment for an exit or a close. These need no memory
// that may be missing.
func (h *history) ends() {
	switch {
	case h.tail() != nil:
	case h.slot != nil:
		h.addSegment(&content{block: h.slot.SmallBlock()})
	default:
		h.addSegment(new(content))
	}
}

// hasData reports whether output can be added to the content at all.
func (c *content) hasData() bool { return c.block == nil || len(c.data) > 0 }

const (
	// endRecords is how many records of a block are kept for the exit and the close.
	endRecords = 2

	// fillRecords is how many records a Fill may add: one for what came before an exit meanwhile, and one for the rest, if a reader has
	// got the entry that it was to join.
	fillRecords = 2
)

// reserve makes sure that a record can be added to the last segment.
func (h *history) reserve(tail *segment) error {
	if b := tail.content.block; b != nil {
		return b.Reserve(tail.count + fillRecords + endRecords)
	}
	return nil
}

// filled is how many bytes the last segment has, with those behind its last record.
func (h *history) filled(c *content) int {
	switch {
	case c.block == nil:
		return len(c.data)
	case !c.hasData():
		return 0
	}
	return int(int64(h.slot.Off.Load()) - c.block.Offset())
}

// put copies bytes behind the last record of the last segment. There is room for them.
func (h *history) put(p []byte) error {
	c := h.tail().content
	if c.block == nil {
		c.data = append(c.data, p...)
		return nil
	}
	if err := c.block.Write(p, c.end()); err != nil {
		return err
	}
	pointWrite.Passed()
	h.slot.Off.Store(uint64(c.block.Offset())+uint64(c.end()+len(p)), pointOff)
	return nil
}

// follow notes whose bytes follow.
func (h *history) follow(s Stream) {
	if h.stream == s {
		return
	}
	if h.stream = s; h.slot != nil {
		h.slot.Stream.Store(uint64(s), pointStream)
	}
}

// add makes a record valid.
func (c *content) add(r record) {
	if c.block == nil {
		c.records = append(c.records, r)
		return
	}
	addRecord(c.block, len(c.records), arena.Record{End: r.end, Kind: uint8(r.kind), Stream: uint8(r.stream), At: r.at, Code: r.code})
}

// extend moves the end of the last entry.
func (c *content) extend(end int) {
	if c.block == nil {
		c.records[len(c.records)-1].end = uint32(end)
		return
	}
	c.block.Extend(len(c.records)-1, end, pointEnd)
}

// refresh copies the records that the block has and the content has not.
func (c *content) refresh() {
	if c.block == nil {
		return
	}
	for n := c.block.Count(); len(c.records) < n; {
		c.records = append(c.records, fromArena(c.block.Record(len(c.records))))
	}
	if n := len(c.records); n > 0 {
		c.records[n-1].end = uint32(c.block.End())
	}
}

func fromArena(r arena.Record) record {
	return record{end: r.End, kind: Kind(r.Kind), stream: Stream(r.Stream), at: r.At, code: r.Code}
}
