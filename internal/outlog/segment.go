package outlog

import (
	"encoding/binary"
	"sync"
	"time"
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
// and dropped. Only the last segment of a log grows, and it is always in memory.
type segment struct {
	first   uint64 // number of its first entry
	count   int
	cost    int64
	size    int      // bytes of its entries
	content *content // nil when spooled
	block   int64    // its block in the spool, when spooled
}

func (s *segment) last() uint64 { return s.first + uint64(s.count) - 1 }

// content is a segment in memory. Its memory is reused after the last reader has
// left it.
type content struct {
	records []record
	data    []byte
	readers int  // readers that visit it now; guarded by the log
	retired bool // its memory is reused when the last reader leaves
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

// encode returns the content in the form of the spool: its bytes, then its records.
// It writes after the bytes, where no reader reads, so the content must not grow
// any more.
func (c *content) encode() []byte {
	b := c.data
	for _, r := range c.records {
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

// contents holds memory for whole segments: for busy logs, and for reading
// from the spool.
var contents = sync.Pool{New: func() any { return &content{data: make([]byte, 0, segmentCost)} }}

func takeContent() *content { return contents.Get().(*content) }

// giveContent takes back what takeContent returned. The content of a quiet log is
// smaller and is left to the garbage collector.
func giveContent(c *content) {
	if cap(c.data) == segmentCost {
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
