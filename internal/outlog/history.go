package outlog

import (
	"io"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/tetherexec/tether/internal/arena"
)

// joinTime is how long output joins an unread entry. The time of an entry is the time
// of its first output, and output is found and shown by it.
const joinTime = time.Second

// A history holds the entries of a process that are kept: their numbers, their
// segments, and the costs of these. It has no lock: the log's lock guards it.
type history struct {
	slot     *arena.Slot // where the log is, if it outlives the process; nil: on the heap
	segments []*segment  // oldest first; contiguous numbers
	next     uint64      // number of the next entry
	sealed   uint64      // newest number that was read: that entry does not grow any more
	released uint64      // up to here entries may be forgotten
	exitSeq  uint64      // number of the exit, 0 before
	exitCode int
	closeSeq uint64    // number of the close, 0 before
	stream   Stream    // whose bytes are behind the last record, if there are any
	output   uint64    // bytes of output of all entries, also of those that were dropped
	lastAt   time.Time // time of the newest entry, with the monotonic clock: silence is counted from it
	cost     costs
}

// costs are sums over the segments of a history. They include EntryOverhead.
type costs struct {
	memory  int64 // segments in memory
	unsent  int64 // segments with unreleased entries
	kept    int64 // segments without unreleased entries
	dropped int64 // bytes of output that were dropped, without EntryOverhead
}

// tail is the newest segment, which grows; nil if there is none.
func (h *history) tail() *segment {
	if len(h.segments) == 0 {
		return nil
	}
	return h.segments[len(h.segments)-1]
}

// room makes room for output of a stream behind the last entry, and returns for how
// much: least bytes or more, if there are to be new entries for them, but not more
// than most. Then put, or a system call, may add that much.
func (h *history) room(s Stream, least, most int, now time.Time) (int, error) {
	tail := h.tail()
	joins := h.joins(s, now)
	if joins > 0 {
		most = min(most, joins)
	} else if tail == nil || !tail.content.hasData() || int(tail.cost)+least+EntryOverhead > segmentCost {
		if err := h.grow(); err != nil {
			return 0, err
		}
		tail = h.tail()
	}
	if err := h.reserve(tail); err != nil { // also to join an entry: that may be read before the bytes are there
		return 0, err
	}
	h.follow(s)
	if joins > 0 {
		return most, nil
	}
	return min(most, MaxEntry, h.left()), nil
}

// joins is how many bytes of a stream may join the last entry: none, if that was read or is
// older than joinTime.
func (h *history) joins(s Stream, now time.Time) int {
	tail := h.tail()
	if tail == nil || tail.count == 0 || h.sealed+1 >= h.next {
		return 0
	}
	r := tail.content.records[tail.count-1]
	if r.kind != Output || r.stream != s {
		return 0
	}
	if age := now.UnixNano() - r.at; age < 0 || age > int64(joinTime) { // by the wall clock, which may be set
		return 0
	}
	start, end := span(tail.content.records, tail.count-1)
	return min(MaxEntry-(end-start), segmentCost-int(tail.cost))
}

// settle makes the bytes behind the last record an entry, or a part of the last one. It
// is called when bytes were added, and at the beginning of each call on a log in an
// arena while no Fill moves bytes, in case that an earlier call, or another process, did
// not get that far. now is the current time, if the caller knows it.
func (h *history) settle(now time.Time) {
	tail := h.tail()
	if tail == nil {
		return
	}
	h.sync()
	c := tail.content
	end := h.filled(c)
	if end <= tail.size {
		return
	}
	if now.IsZero() {
		now = time.Now()
	}
	if h.joins(h.stream, now) >= end-tail.size {
		c.extend(end)
	} else {
		c.add(record{kind: Output, stream: h.stream, end: uint32(end), at: now.UnixNano()})
	}
	h.lastAt = now
	h.sync()
}

// end adds an exit or a close.
func (h *history) end(kind Kind, code int) {
	h.ends()
	tail := h.tail()
	h.lastAt = time.Now()
	tail.content.add(record{kind: kind, end: uint32(tail.size), at: h.lastAt.UnixNano(), code: int64(code)})
	h.sync()
}

// sync brings the figures up to date with the content of the last segment.
func (h *history) sync() {
	tail := h.tail()
	c := tail.content
	c.refresh()
	for tail.count < len(c.records) {
		h.count(tail, c.records[tail.count])
	}
	if grown := c.end() - tail.size; grown > 0 {
		h.charge(tail, grown, 0)
	}
}

// count accounts for a new record of the last segment.
func (h *history) count(tail *segment, r record) {
	if tail.last() <= h.released { // from now on it has unreleased entries
		h.cost.kept -= tail.cost
		h.cost.unsent += tail.cost
	}
	switch r.kind {
	case Exited:
		h.exitSeq, h.exitCode = h.next, int(r.code)
	case Closed:
		h.closeSeq = h.next
	}
	tail.count++
	h.next++
	h.charge(tail, int(r.end)-tail.size, EntryOverhead)
}

// charge accounts for the growth of the last segment, which is in memory and has
// unreleased entries.
func (h *history) charge(tail *segment, size, overhead int) {
	cost := int64(size + overhead)
	h.output += uint64(size)
	tail.size += size
	tail.cost += cost
	h.cost.memory += cost
	h.cost.unsent += cost
}

// find is the index of the segment that holds seq, or the number of segments if seq is
// not written yet.
func (h *history) find(seq uint64) int {
	return sort.Search(len(h.segments), func(i int) bool { return h.segments[i].last() >= seq })
}

// release allows the entries up to seq to be forgotten. It reports whether one more
// whole segment is released now.
func (h *history) release(seq uint64) bool {
	if seq <= h.released {
		return false
	}
	i := h.find(h.released + 1)
	h.seal(seq)
	h.released = seq
	if h.slot != nil {
		h.slot.Released.Store(seq, pointReleased)
	}
	if h.segments[i].last() > seq {
		return false
	}
	for ; i < len(h.segments) && h.segments[i].last() <= seq; i++ {
		h.cost.unsent -= h.segments[i].cost
		h.cost.kept += h.segments[i].cost
	}
	return true
}

// oldestReleased reports whether the oldest segment may be forgotten.
func (h *history) oldestReleased() bool {
	return len(h.segments) > 0 && h.segments[0].last() <= h.released
}

// oldestSpooled reports whether the oldest segment is on disk.
func (h *history) oldestSpooled() bool { return len(h.segments) > 0 && h.segments[0].content == nil }

// surplus reports whether the oldest segment is released and exceeds Retain.
func (h *history) surplus(retain int64) bool {
	return len(h.segments) > 1 && h.oldestReleased() && h.cost.kept-h.segments[0].cost >= retain
}

// seal makes the entries up to seq final.
func (h *history) seal(seq uint64) {
	if seq <= h.sealed {
		return
	}
	h.sealed = seq
	if h.slot != nil {
		h.slot.Sealed.Store(seq, pointSealed)
	}
}

// forget notes that the oldest segment is not needed any more.
func (h *history) forget() {
	if h.slot != nil {
		h.keepExit(h.segments[0])
		h.slot.First.Store(h.segments[0].last()+1, pointFirst)
	}
}

// spooled notes that a segment, the oldest in memory, is in the spool.
func (h *history) spooled(s *segment) {
	if h.slot != nil {
		h.keepExit(s)
		h.slot.Memory.Store(s.last()+1, pointMemory)
	}
}

// keepExit notes the exit, if it is in a segment that leaves memory.
func (h *history) keepExit(s *segment) {
	if s.ends(h.exitSeq) > 0 {
		h.slot.LogCode.Store(uint64(h.exitCode), pointExit)
		h.slot.LogExit.Store(h.exitSeq, pointExit)
	}
}

// drop removes the oldest segment.
func (h *history) drop() *segment {
	s := h.segments[0]
	h.segments[0] = nil
	h.segments = h.segments[1:]
	h.cost.dropped += int64(s.size)
	if s.last() <= h.released {
		h.cost.kept -= s.cost
	} else {
		h.cost.unsent -= s.cost
	}
	if s.content != nil {
		h.cost.memory -= s.cost
	}
	return s
}

// oldestInMemory is the oldest segment that is not on disk. It is called when memory
// is full, so it is not the last segment, which grows.
func (h *history) oldestInMemory() *segment {
	return h.segments[sort.Search(len(h.segments), func(i int) bool { return h.segments[i].content != nil })]
}

// holds reports whether a segment is still there.
func (h *history) holds(s *segment) bool {
	return len(h.segments) > 0 && h.segments[0].first <= s.first
}

// state is the state before the entry with number next.
func (h *history) state(next uint64) State {
	s := State{Next: next}
	if h.exitSeq != 0 && h.exitSeq < next {
		s.Exited, s.ExitCode = true, h.exitCode
	}
	s.Closed = h.closeSeq != 0 && h.closeSeq < next
	return s
}

// seek finds the segment with the entry that follows after, which may be any
// number.
func (h *history) seek(after uint64) (*segment, error) {
	switch {
	case h.closeSeq != 0 && after >= h.closeSeq:
		return nil, io.EOF
	case after >= h.next-1:
		return nil, ErrNone
	}
	seq, s := after+1, h.tail()
	if seq < s.first {
		s = h.segments[h.find(seq)]
	}
	if seq < s.first {
		return nil, ErrEvicted
	}
	return s, nil
}

// pending counts the entries after number after and their bytes. If they are not all
// in the newest segment, bytes is a very large number.
func (h *history) pending(after uint64) (entries uint64, bytes int) {
	if after >= h.next-1 {
		return 0, 0
	}
	tail := h.tail()
	if after+1 < tail.first {
		return h.next - 1 - after, math.MaxInt
	}
	start, _ := span(tail.content.records, int(after+1-tail.first))
	return h.next - 1 - after, tail.size - start
}

// outputAfter counts the bytes of output after number after. If after is in a
// spooled segment, the whole segment counts, because the sizes of its entries are
// on disk.
func (h *history) outputAfter(after uint64) (bytes int64) {
	for _, s := range h.segments[h.find(after+1):] {
		bytes += int64(s.size)
		if after >= s.first && s.content != nil {
			start, _ := span(s.content.records, int(after+1-s.first))
			bytes -= int64(start)
		}
	}
	return bytes
}

// window returns the newest segments, up to the one with which they exceed the given
// limits. Entries in the window do not grow any more.
func (h *history) window(bytes int64, entries int) window {
	w := window{after: h.next - 1, last: h.next - 1}
	h.seal(w.last)
	for _, s := range slices.Backward(h.segments) {
		if w.bytes > bytes || w.entries > entries {
			break
		}
		w.after = s.first - 1
		w.bytes += int64(s.size)
		w.entries += s.count - s.ends(h.exitSeq) - s.ends(h.closeSeq)
	}
	return w
}
