package outlog

import (
	"cmp"
	"errors"
	"sync"

	"github.com/tetherexec/tether/internal/wake"
)

// Errors of readers and writers.
var (
	// ErrEnded means that the log was ended: its output is gone.
	ErrEnded = errors.New("output log has ended")

	// ErrEvicted means that entries after the cursor were forgotten.
	ErrEvicted = errors.New("output is no longer kept")

	// ErrCut means that no more output is recorded: the log was cut or closed.
	ErrCut = errors.New("output is no longer recorded")
)

// Config says how long a log keeps entries. Zero values stand for the defaults.
type Config struct {
	Retain int64 // bytes of released entries to keep; DefaultRetain
	Limit  int64 // bytes of unreleased entries at which Append waits; DefaultLimit

	Acks           bool   // entries are released by Ack, not by Sent
	CloseDelivered func() // called once, without a lock, when the close was sent or acknowledged; may be nil
}

// Defaults of Config.
const (
	DefaultRetain = 64 << 20
	DefaultLimit  = 1 << 30
)

// A Log holds the events of one process. Its methods may be called by any
// number of goroutines.
type Log struct {
	retain int64 // Config.Retain
	limit  int64 // Config.Limit

	mu        sync.Mutex  // guards the fields below
	history   history     // the entries that are kept
	delivery  delivery    // the entries that the client has got
	room      room        // where Append waits
	overflow  overflow    // the part on disk
	listeners []*listener // replaced, never modified
	ended     bool
}

// New returns an empty log that spools into pool.
func New(pool *Pool, c Config) *Log {
	return &Log{
		retain: cmp.Or(c.Retain, DefaultRetain), limit: cmp.Or(c.Limit, DefaultLimit),
		history: history{next: 1}, delivery: delivery{acks: c.Acks, closed: c.CloseDelivered},
		room: room{poked: wake.New()}, overflow: overflow{pool: pool},
	}
}

// Append records output. It copies p. It waits while too much is unreleased, or
// while the spool is full and the newest megabyte is unreleased. Output of an
// Append that began before Cut is recorded completely.
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
	p = p[l.history.extend(s, p):]
	if len(p) > 0 {
		l.history.add(record{kind: Output, stream: s}, p)
	}
	l.announceAndUnlock(urgent)
	return nil
}

// Exit records that the process itself has ended. It is always admitted.
func (l *Log) Exit(code int) {
	l.mu.Lock()
	if h := &l.history; h.exitSeq == 0 && h.closeSeq == 0 && !l.ended {
		h.exitSeq, h.exitCode = h.next, code
		h.add(record{kind: Exited, code: int64(code)}, nil)
	}
	l.announceAndUnlock(true)
}

// Close records that no more output will come. It is always admitted. An Append
// that waits for room returns ErrCut.
func (l *Log) Close() {
	l.mu.Lock()
	if h := &l.history; h.closeSeq == 0 && !l.ended {
		h.closeSeq = h.next
		h.add(record{kind: Closed}, nil)
		l.room.open()
	}
	l.announceAndUnlock(true)
}

// Cut ends the recording of output: the output of waiting Appends is still
// recorded, later calls return ErrCut. Exit and Close may follow.
func (l *Log) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.room.cut = true
	l.room.open()
}

// End drops all entries and makes every later call fail.
func (l *Log) End() {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended = true
	for len(l.history.segments) > 0 {
		l.dropLocked()
	}
	l.overflow.pool.leave(l)
	idle := l.overflow.spool != nil && !l.overflow.moving // otherwise the Append that uses the spool closes it
	l.room.open()
	l.announceAndUnlock(false)
	if idle {
		l.overflow.close()
	}
}
