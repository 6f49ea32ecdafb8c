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
	Stream   Stream // of Output
	ExitCode int    // of Exited
	Time     time.Time
	Data     []byte // of Output; only valid while it is being visited
}

const (
	// MaxEntry is the most output that one entry holds.
	MaxEntry = 64 << 10

	// EntryOverhead is added to the length of an entry wherever bytes are
	// limited, so that tiny writes cannot outgrow a limit by their bookkeeping.
	EntryOverhead = 64

	// segmentCost bounds the entries of a segment, and with that its size in
	// the spool: a record is smaller than EntryOverhead.
	segmentCost = 256 << 10
)

// A segment is a run of consecutive entries: the unit that is moved to the
// spool and that is forgotten. Only the last segment of a log grows.
type segment struct {
	first uint64 // number of its first entry
	count int
	cost  int64

	records []record // nil when spooled
	data    []byte   // nil when spooled
	size    int      // bytes of data, also when spooled

	block   int64 // where in the spool; noBlock while in memory
	readers int   // who uses data right now; guarded by the log
	retired bool  // data goes back to the pool with its last reader
}

const noBlock = -1

// A record describes one entry of a segment.
type record struct {
	end    uint32 // end of its bytes in the segment's data
	code   int32
	at     int64 // unix nanoseconds
	kind   Kind
	stream Stream
}

const recordSize = 4 + 4 + 8 + 1 + 1

func (s *segment) last() uint64 { return s.first + uint64(s.count) - 1 }

// span is where the bytes of entry i lie in the segment's data.
func span(records []record, i int) (start, end int) {
	if i > 0 {
		start = int(records[i-1].end)
	}
	return start, int(records[i].end)
}

func (r record) entry(seq uint64, data []byte) Entry {
	return Entry{Seq: seq, Kind: r.kind, Stream: r.stream, ExitCode: int(r.code), Time: time.Unix(0, r.at), Data: data}
}

// encode appends the segment as it is stored in the spool: its bytes, then its
// records.
func (s *segment) encode(b []byte) []byte {
	b = append(b, s.data...)
	for _, r := range s.records {
		b = binary.LittleEndian.AppendUint32(b, r.end)
		b = binary.LittleEndian.AppendUint32(b, uint32(r.code))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.at))
		b = append(b, byte(r.kind), byte(r.stream))
	}
	return b
}

func decodeRecords(b []byte) []record {
	records := make([]record, 0, len(b)/recordSize)
	for ; len(b) >= recordSize; b = b[recordSize:] {
		records = append(records, record{
			end:    binary.LittleEndian.Uint32(b),
			code:   int32(binary.LittleEndian.Uint32(b[4:])),
			at:     int64(binary.LittleEndian.Uint64(b[8:])),
			kind:   Kind(b[16]),
			stream: Stream(b[17]),
		})
	}
	return records
}

// buffers holds memory of segmentCost bytes for the segments of busy logs and
// for passing entries between memory and spool.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, segmentCost)
	return &b
}}

func takeBuffer() []byte { return (*buffers.Get().(*[]byte))[:0] }

// giveBuffer takes back what takeBuffer gave; anything smaller is left to the
// garbage collector.
func giveBuffer(b []byte) {
	if cap(b) == segmentCost {
		buffers.Put(&b)
	}
}
