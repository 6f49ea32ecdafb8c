package outlog

import (
	"errors"
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

	// ErrCut means that output is no longer taken although the log goes on.
	ErrCut = errors.New("output is no longer recorded")
)

const (
	// memoryCost is the newest part of a log that stays in memory. A process may
	// always hold that much, whatever the others use.
	memoryCost = 1 << 20

	// retrySpool is how long Append waits before it tries a full disk again.
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
	poked  chan struct{} // the pool has room again

	mu       sync.Mutex
	segments []*segment // oldest first; contiguous numbers
	next     uint64     // number of the next entry
	sealed   uint64     // newest number that somebody has read: it does not grow any more
	sent     uint64     // up to here entries may be forgotten
	exitSeq  uint64     // number of the exit, 0 before
	exitCode int
	closeSeq uint64 // number of the close, 0 before
	lastAt   int64  // time of the newest entry

	memory   int64 // cost of the segments in memory
	unsent   int64 // cost of the segments with something unsent
	kept     int64 // cost of the segments without
	spool    *spool
	spooling bool // one Append is moving a segment to the spool
	blocked  int  // how many Appends wait for room
	cut      bool
	ended    bool

	changed   chan struct{} // closed by the next entry; made when somebody waits
	room      chan struct{} // closed when there may be room; made when somebody waits
	followers []*follower   // replaced, never modified
}

// A follower is told about new entries.
type follower struct{ wake func() }

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
// while the spool is full and the newest megabyte is not sent yet.
func (l *Log) Append(s Stream, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), MaxEntry)
		if err := l.append(s, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (l *Log) append(s Stream, p []byte) error {
	l.mu.Lock()
	if err := l.makeRoomLocked(int64(len(p)) + EntryOverhead); err != nil {
		l.mu.Unlock()
		return err
	}
	p = p[l.extendLocked(s, p):]
	if len(p) > 0 {
		l.addLocked(record{kind: Output, stream: s}, p)
	}
	l.announceAndUnlock()
	return nil
}

// Exit records that the process itself has ended. It is always admitted.
func (l *Log) Exit(code int) {
	l.mu.Lock()
	if l.exitSeq == 0 && l.closeSeq == 0 && !l.ended {
		l.exitSeq, l.exitCode = l.next, code
		l.addLocked(record{kind: Exited, code: int32(code)}, nil)
	}
	l.announceAndUnlock()
}

// Close records that no more output will come. It is always admitted.
func (l *Log) Close() {
	l.mu.Lock()
	if l.closeSeq == 0 && !l.ended {
		l.closeSeq = l.next
		l.addLocked(record{kind: Closed}, nil)
	}
	l.announceAndUnlock()
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
	if l.spool != nil && !l.spooling {
		l.spool.file.Close()
	}
	l.roomLocked()
	l.announceAndUnlock()
}

// Sent allows the entries up to seq to be forgotten, the newest Retain bytes of
// them excepted.
func (l *Log) Sent(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq = min(seq, l.next-1)
	if seq <= l.sent {
		return
	}
	i := l.findLocked(l.sent + 1)
	l.sent = seq
	l.sealed = max(l.sealed, seq)
	for ; i < len(l.segments) && l.segments[i].last() <= seq; i++ {
		l.unsent -= l.segments[i].cost
		l.kept += l.segments[i].cost
	}
	for len(l.segments) > 1 && l.segments[0].last() <= l.sent && l.kept-l.segments[0].cost >= l.retain {
		l.dropLocked()
	}
	l.roomLocked()
}

// extendLocked adds the beginning of p to the newest entry, if that is open,
// and returns how much it took.
func (l *Log) extendLocked(s Stream, p []byte) int {
	if len(l.segments) == 0 || l.sealed+1 >= l.next {
		return 0
	}
	tail := l.segments[len(l.segments)-1]
	r := &tail.records[tail.count-1]
	start, end := span(tail.records, tail.count-1)
	n := min(len(p), MaxEntry-(end-start), segmentCost-int(tail.cost))
	if r.kind != Output || r.stream != s || n <= 0 {
		return 0
	}
	tail.data = append(tail.data, p[:n]...)
	tail.size += n
	r.end += uint32(n)
	l.lastAt = time.Now().UnixNano()
	l.chargeLocked(tail, int64(n))
	return n
}

// addLocked adds an entry with the next number.
func (l *Log) addLocked(r record, p []byte) {
	cost := int64(len(p)) + EntryOverhead
	var tail *segment
	if n := len(l.segments); n > 0 {
		tail = l.segments[n-1]
	}
	if tail == nil || tail.cost+cost > segmentCost {
		full := tail != nil
		tail = &segment{first: l.next, block: noBlock}
		if full { // a busy log: the next segment will be filled as well
			tail.data = takeBuffer()
		}
		l.segments = append(l.segments, tail)
	} else if tail.last() <= l.sent { // from now on it has something unsent
		l.kept -= tail.cost
		l.unsent += tail.cost
	}
	tail.data = append(tail.data, p...)
	tail.size += len(p)
	r.end = uint32(tail.size)
	r.at = time.Now().UnixNano()
	tail.records = append(tail.records, r)
	tail.count++
	l.next++
	l.lastAt = r.at
	l.chargeLocked(tail, cost)
}

// chargeLocked accounts for the growth of the last segment, which is in memory
// and has something unsent.
func (l *Log) chargeLocked(tail *segment, cost int64) {
	tail.cost += cost
	l.memory += cost
	l.unsent += cost
}

// makeRoomLocked waits until an entry of the given cost may be added. It gives
// up the lock while it waits or writes to the spool.
func (l *Log) makeRoomLocked(cost int64) error {
	waiting := false
	defer func() {
		if waiting {
			l.blocked--
		}
	}()
	for {
		switch {
		case l.ended:
			return ErrEnded
		case l.cut && !waiting:
			return ErrCut
		case l.cut:
			return nil
		case l.unsent+cost > l.limit && l.unsent > 0:
			// too much is unsent
		case l.memory+cost <= memoryCost:
			return nil
		case l.spooling:
			// another stream's Append is at it
		default:
			if l.spoolOldestLocked() {
				continue
			}
		}
		if !waiting {
			waiting = true
			l.blocked++
		}
		l.waitForRoomLocked()
	}
}

func (l *Log) waitForRoomLocked() {
	if l.room == nil {
		l.room = make(chan struct{})
	}
	room := l.room
	l.mu.Unlock()
	retry := time.NewTimer(retrySpool)
	select {
	case <-room:
	case <-l.poked:
	case <-retry.C:
	}
	retry.Stop()
	l.mu.Lock()
}

// poke tells a waiting Append that the pool has room. It takes no lock.
func (l *Log) poke() {
	select {
	case l.poked <- struct{}{}:
	default:
	}
}

// spoolOldestLocked moves the oldest segment in memory to the spool, or drops
// it when that fails and it was sent. It reports whether memory was freed.
func (l *Log) spoolOldestLocked() bool {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].block == noBlock })
	if i == len(l.segments)-1 { // only the open one
		return false
	}
	s := l.segments[i]
	l.spooling = true
	s.readers++
	l.mu.Unlock()
	block, err := l.store(s)
	l.mu.Lock()
	l.spooling = false
	l.unpinLocked(s)

	freed := true
	switch {
	case err == nil && !l.ended && l.segments[0].first <= s.first:
		s.block = block
		s.records = nil
		l.retireLocked(s)
		l.memory -= s.cost
	case err == nil: // dropped meanwhile
		l.freeBlockLocked(block)
	case !l.ended && s.last() <= l.sent:
		for l.segments[0].first <= s.first {
			l.dropLocked()
		}
	default:
		freed = false
	}
	if l.ended && l.spool != nil {
		l.spool.file.Close()
	}
	l.roomLocked()
	return freed
}

// store writes a segment to the spool. Only one goroutine does so at a time.
func (l *Log) store(s *segment) (block int64, err error) {
	if err := l.pool.take(l); err != nil {
		return 0, err
	}
	b := s.encode(takeBuffer())
	defer giveBuffer(b)

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spool == nil {
		if l.spool, err = openSpool(l.pool.dir); err != nil {
			l.pool.give(l, 1, true)
			return 0, err
		}
	}
	block = l.spool.next()
	l.mu.Unlock()
	err = l.spool.write(block, b)
	l.mu.Lock()
	if err != nil {
		l.freeBlockLocked(block)
	}
	return block, err
}

func (l *Log) freeBlockLocked(block int64) {
	l.spool.release(block)
	l.pool.give(l, 1, int64(len(l.spool.free)) == l.spool.size)
}

// dropLocked forgets the oldest segment.
func (l *Log) dropLocked() {
	s := l.segments[0]
	l.segments[0] = nil
	l.segments = l.segments[1:]
	if s.last() <= l.sent {
		l.kept -= s.cost
	} else {
		l.unsent -= s.cost
	}
	if s.block != noBlock {
		l.freeBlockLocked(s.block)
		return
	}
	l.memory -= s.cost
	l.retireLocked(s)
}

// evictSent forgets the oldest segment if it is spooled and was sent.
func (l *Log) evictSent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.segments) == 0 || l.segments[0].block == noBlock || l.segments[0].last() > l.sent {
		return false
	}
	l.dropLocked()
	return true
}

// retireLocked gives the memory of a segment back once nobody reads it.
func (l *Log) retireLocked(s *segment) {
	if s.readers > 0 {
		s.retired = true
		return
	}
	giveBuffer(s.data)
	s.data = nil
}

func (l *Log) unpinLocked(s *segment) {
	if s.readers--; s.readers == 0 && s.retired {
		giveBuffer(s.data)
		s.data = nil
	}
}

// findLocked is the index of the segment that holds seq, or the number of
// segments if seq is still to come.
func (l *Log) findLocked(seq uint64) int {
	return sort.Search(len(l.segments), func(i int) bool { return l.segments[i].last() >= seq })
}

func (l *Log) roomLocked() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

func (l *Log) announceAndUnlock() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	followers := l.followers
	l.mu.Unlock()
	for _, f := range followers {
		f.wake()
	}
}
