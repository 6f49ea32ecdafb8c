package outlog

import (
	"errors"
	"slices"
	"sort"
	"sync"
	"time"
)

// Errors of readers and writers.
var (
	// ErrEnded means that the log was ended: its output is gone.
	ErrEnded = errors.New("output log has ended")

	// ErrEvicted means that entries after the cursor were forgotten.
	ErrEvicted = errors.New("output is no longer kept")

	// ErrCut means that output is no longer taken: the log was cut or closed.
	ErrCut = errors.New("output is no longer recorded")
)

const (
	// memoryCost is the newest part of a log that stays in memory. A process may
	// always hold that much unsent, whatever the others use.
	memoryCost = 1 << 20

	// memoryLimit is where the oldest segment has to leave memory. The segment on
	// top is there because one that was sent in part leaves as a whole or not at
	// all.
	memoryLimit = memoryCost + segmentCost

	// joinTime is how long output joins an entry that is not read: an entry has one time,
	// by which output is found and shown.
	joinTime = time.Second

	// retrySpool is how long Append waits before it tries a full spool again, in
	// case that the disk has room now.
	retrySpool = 250 * time.Millisecond
)

// Config bounds a log. Zero values stand for the defaults.
type Config struct {
	Retain int64 // how much of what was sent is kept; DefaultRetain
	Limit  int64 // how much may be unsent before Append waits; DefaultLimit
}

// Defaults of Config.
const (
	DefaultRetain = 64 << 20
	DefaultLimit  = 1 << 30
)

// A Log holds the events of one process. Its methods may be called by any
// number of goroutines.
type Log struct {
	pool   *Pool
	retain int64
	limit  int64
	poked  chan struct{} // the pool may have room again

	mu       sync.Mutex
	segments []*segment // oldest first; contiguous numbers
	next     uint64     // number of the next entry
	sealed   uint64     // newest number that somebody has read: it does not grow any more
	sent     uint64     // up to here entries may be forgotten
	exitSeq  uint64     // number of the exit, 0 before
	exitCode int
	closeSeq uint64    // number of the close, 0 before
	lastAt   time.Time // of the newest entry, with its monotonic reading: silence is counted from it

	memory   int64  // cost of the segments in memory
	unsent   int64  // cost of the segments with something unsent
	kept     int64  // cost of the segments without
	dropped  int64  // bytes of output that are no longer kept
	spool    *spool // nil before it is needed; set by who has set spooling
	spooling bool   // one Append is moving a segment to the spool
	offered  bool   // the pool knows that the oldest segment can be evicted
	blocked  int    // how many Appends wait for room
	cut      bool
	ended    bool

	room      chan struct{} // closed when there may be room; made when somebody waits
	listeners []*listener   // replaced, never modified
}

// A listener is told about new entries.
type listener struct{ wake func(urgent bool) }

// New returns an empty log that spools into pool.
func New(pool *Pool, c Config) *Log {
	l := &Log{pool: pool, retain: c.Retain, limit: c.Limit, poked: make(chan struct{}, 1), next: 1}
	if l.retain == 0 {
		l.retain = DefaultRetain
	}
	if l.limit == 0 {
		l.limit = DefaultLimit
	}
	return l
}

// Append records output. It copies p. It waits while too much is unsent, or
// while the spool is full and the newest megabyte is not sent yet. What it was
// given before Cut is recorded as a whole.
func (l *Log) Append(s Stream, p []byte) error {
	for begun := false; len(p) > 0; begun = true {
		n := min(len(p), MaxEntry)
		if err := l.append(s, p[:n], begun); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (l *Log) append(s Stream, p []byte, begun bool) error {
	l.mu.Lock()
	if err := l.admitLocked(int64(len(p))+EntryOverhead, begun); err != nil {
		l.mu.Unlock()
		return err
	}
	urgent := len(p) <= urgentSize
	p = p[l.extendLocked(s, p):]
	if len(p) > 0 {
		l.addLocked(record{kind: Output, stream: s}, p)
	}
	l.announceAndUnlock(urgent)
	return nil
}

// Exit records that the process itself has ended. It is always admitted.
func (l *Log) Exit(code int) {
	l.mu.Lock()
	if l.exitSeq == 0 && l.closeSeq == 0 && !l.ended {
		l.exitSeq, l.exitCode = l.next, code
		l.addLocked(record{kind: Exited, code: int64(code)}, nil)
	}
	l.announceAndUnlock(true)
}

// Close records that no more output will come. It is always admitted; an Append
// that waits for room returns ErrCut.
func (l *Log) Close() {
	l.mu.Lock()
	if l.closeSeq == 0 && !l.ended {
		l.closeSeq = l.next
		l.addLocked(record{kind: Closed}, nil)
		l.roomLocked()
	}
	l.announceAndUnlock(true)
}

// Cut ends the recording of output: what waits in Append is still taken,
// further calls return ErrCut. Exit and Close may follow.
func (l *Log) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.roomLocked()
}

// End forgets everything and makes every later call fail.
func (l *Log) End() {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended = true
	for len(l.segments) > 0 {
		l.dropLocked()
	}
	l.pool.leave(l)
	idle := l.spool != nil && !l.spooling // else the spool is closed by who uses it
	l.roomLocked()
	l.announceAndUnlock(false)
	if idle {
		l.closeSpool()
	}
}

// Sent allows the entries up to seq to be forgotten, the newest Retain bytes of
// them excepted.
func (l *Log) Sent(seq uint64) {
	if l.markSent(seq) {
		l.trimSpool()
	}
}

// markSent reports whether it has forgotten anything.
func (l *Log) markSent(seq uint64) (dropped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq = min(seq, l.next-1)
	if seq <= l.sent || l.ended {
		return false
	}
	i := l.findLocked(l.sent + 1)
	l.sent = seq
	l.sealed = max(l.sealed, seq)
	if l.segments[i].last() > seq {
		return false
	}
	for ; i < len(l.segments) && l.segments[i].last() <= seq; i++ {
		l.unsent -= l.segments[i].cost
		l.kept += l.segments[i].cost
	}
	for len(l.segments) > 1 && l.segments[0].last() <= l.sent && l.kept-l.segments[0].cost >= l.retain {
		l.dropLocked()
		dropped = true
	}
	l.offerLocked()
	l.roomLocked()
	return dropped
}

// extendLocked adds the beginning of p to the newest entry, if that is open and not
// older than joinTime, and returns how much it took.
func (l *Log) extendLocked(s Stream, p []byte) int {
	if len(l.segments) == 0 || l.sealed+1 >= l.next {
		return 0
	}
	tail := l.segments[len(l.segments)-1]
	c := tail.content
	r := &c.records[tail.count-1]
	start, end := span(c.records, tail.count-1)
	n := min(len(p), MaxEntry-(end-start), segmentCost-int(tail.cost))
	if r.kind != Output || r.stream != s || n <= 0 {
		return 0
	}
	now := time.Now()
	if age := now.UnixNano() - r.at; age < 0 || age > int64(joinTime) { // by the wall clock, which may be set
		return 0
	}
	c.data = append(c.data, p[:n]...)
	r.end += uint32(n)
	l.lastAt = now
	l.chargeLocked(tail, n, 0)
	return n
}

// addLocked adds an entry with the next number.
func (l *Log) addLocked(r record, p []byte) {
	var tail *segment
	if n := len(l.segments); n > 0 {
		tail = l.segments[n-1]
	}
	switch {
	case tail == nil:
		tail = &segment{first: l.next, content: new(content)}
		l.segments = append(l.segments, tail)
	case tail.cost+int64(len(p))+EntryOverhead > segmentCost: // a busy log: the next segment will be filled as well
		tail = &segment{first: l.next, content: takeContent()}
		l.segments = append(l.segments, tail)
	case tail.last() <= l.sent: // from now on it has something unsent
		l.kept -= tail.cost
		l.unsent += tail.cost
	}
	c := tail.content
	c.data = append(c.data, p...)
	r.end = uint32(len(c.data))
	l.lastAt = time.Now()
	r.at = l.lastAt.UnixNano()
	c.records = append(c.records, r)
	tail.count++
	l.next++
	l.chargeLocked(tail, len(p), EntryOverhead)
}

// chargeLocked accounts for the growth of the last segment, which is in memory
// and has something unsent.
func (l *Log) chargeLocked(tail *segment, size, overhead int) {
	cost := int64(size + overhead)
	tail.size += size
	tail.cost += cost
	l.memory += cost
	l.unsent += cost
}

// findLocked is the index of the segment that holds seq, or the number of
// segments if seq is still to come.
func (l *Log) findLocked(seq uint64) int {
	return sort.Search(len(l.segments), func(i int) bool { return l.segments[i].last() >= seq })
}

// urgentSize is the largest piece of output that somebody may be waiting for at
// this moment, such as the echo of a key. More is a matter of throughput.
const urgentSize = 4 << 10

// announceAndUnlock tells everybody who waits for entries to look again.
func (l *Log) announceAndUnlock(urgent bool) {
	listeners := l.listeners
	l.mu.Unlock()
	for _, f := range slices.Backward(listeners) { // who waits for one event came last
		f.wake(urgent)
	}
}
