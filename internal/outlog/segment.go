package outlog

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/arena"
)

// Kind says what an entry records.
type Kind uint8

// The kinds of entries.
const (
	Output Kind = iota + 1
	Exited
	Closed
)

// An Entry is one event of a process.
type Entry struct {
	Seq      uint64
	Kind     Kind
	Stream   Stream // for Output
	ExitCode int    // for Exited
	Time     time.Time
	Data     []byte // for Output; only valid during the visit
}

const (
	// MaxEntry is the most output that one entry holds.
	MaxEntry = 64 << 10

	// EntryOverhead is added to the length of an entry wherever bytes are limited,
	// so that tiny writes cannot exceed a limit by their bookkeeping.
	EntryOverhead = 64

	// segmentCost limits the entries of a segment, and so its size in the spool: a
	// record is smaller than EntryOverhead. It is a multiple of the page size and
	// holds four full entries.
	segmentCost = 260 << 10
)

// A segment is a run of consecutive entries: the unit that is moved to the spool
// and dropped. Only the last segment of a log grows, and it is always in memory. It may be
// empty. Its figures follow its content (history.sync).
type segment struct {
	first   uint64 // number of its first entry
	start   uint64 // bytes of output before it
	count   int
	cost    int64
	size    int      // bytes of its entries
	content *content // nil when spooled
	block   int64    // its block in the spool, when spooled
}

func (s *segment) last() uint64 { return s.first + uint64(s.count) - 1 }

// content is a segment in memory: on the heap, or in a block of an arena, which
// outlives the process. The memory is reused after the last reader has left it.
type content struct {
	records []record     // all records; for a block, a copy
	data    []byte       // the bytes so far; for a block, all of its memory
	block   *arena.Block // nil: on the heap
	readers int          // readers that visit it now; guarded by the log
	retired bool         // its memory is reused when the last reader leaves
}

// A record describes one entry of a segment.
type record struct {
	end    uint32 // end of its bytes in the segment's data
	kind   Kind
	stream Stream
	at     int64 // unix nanoseconds
	code   int64
}

const recordSize = 4 + 1 + 1 + 8 + 8

// span is where the bytes of entry i are in the segment's data.
func span(records []record, i int) (start, end int) {
	if i > 0 {
		start = int(records[i-1].end)
	}
	return start, int(records[i].end)
}

func (r record) entry(seq uint64, data []byte) Entry {
	return Entry{Seq: seq, Kind: r.kind, Stream: r.stream, ExitCode: int(r.code), Time: time.Unix(0, r.at), Data: data}
}

// appendRecords appends the records to b in the form of the spool.
func appendRecords(b []byte, records []record) []byte {
	for _, r := range records {
		b = binary.LittleEndian.AppendUint32(b, r.end)
		b = append(b, byte(r.kind), byte(r.stream))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.at))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.code))
	}
	return b
}

// decodeRecords appends the records in b to records.
func decodeRecords(records []record, b []byte) []record {
	for ; len(b) >= recordSize; b = b[recordSize:] {
		records = append(records, record{
			end:    binary.LittleEndian.Uint32(b),
			kind:   Kind(b[4]),
			stream: Stream(b[5]),
			at:     int64(binary.LittleEndian.Uint64(b[6:])),
			code:   int64(binary.LittleEndian.Uint64(b[14:])),
		})
	}
	return records
}

// end is where the bytes of the last entry end.
func (c *content) end() int {
	if n := len(c.records); n > 0 {
		return int(c.records[n-1].end)
	}
	return 0
}

// contents holds memory for whole segments: for busy logs, and for reading
// from the spool.
var contents = sync.Pool{New: func() any { return &content{data: make([]byte, 0, segmentCost)} }}

func takeContent() *content { return contents.Get().(*content) }

// giveContent takes back what takeContent returned, or a block. The content of a quiet
// log on the heap is smaller and is left to the garbage collector.
func giveContent(c *content) {
	switch {
	case c.block != nil:
		c.block.Free(c.end())
		c.block = nil
	case cap(c.data) == segmentCost:
		*c = content{records: c.records[:0], data: c.data[:0]}
		contents.Put(c)
	}
}

// retire gives the memory back when no reader uses it.
func (c *content) retire() {
	if c.readers > 0 {
		c.retired = true
		return
	}
	giveContent(c)
}

// unpin is called when a reader leaves.
func (c *content) unpin() {
	if c.readers--; c.readers == 0 && c.retired {
		giveContent(c)
	}
}
