package outlog

import (
	"cmp"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/arena"
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

	// Slot is where the log is kept, so that Reopen can continue it in another process. nil: the
	// log ends with this one. The slot must not be freed before the log has ended and no Fill is
	// running. HoldSpool, if not nil, is called once, with the spool file, before the first
	// entries that are only there: it passes the descriptor on.
	Slot      *arena.Slot
	HoldSpool func(*os.File) error
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
	fills  bool  // it has Config.Slot

	mu        sync.Mutex  // guards the fields below
	history   history     // the entries that are kept
	delivery  delivery    // the entries that the client has got
	room      room        // where Append waits
	overflow  overflow    // the part on disk
	listeners []*listener // replaced, never modified
	ended     bool
	taking    bool      // a Fill moves bytes behind the last record, without the lock
	taken     sync.Cond // signalled when it has done so
}

// New returns an empty log that spools into pool. A slot must be new.
func New(pool *Pool, c Config) *Log {
	l := &Log{
		retain: cmp.Or(c.Retain, DefaultRetain), limit: cmp.Or(c.Limit, DefaultLimit), fills: c.Slot != nil,
		history: history{slot: c.Slot, next: 1}, delivery: delivery{acks: c.Acks, closed: c.CloseDelivered},
		room: room{poked: wake.New()}, overflow: overflow{pool: pool, hold: c.HoldSpool},
	}
	if c.Slot != nil {
		l.overflow.serial = c.Slot.Serial.Load()
	}
	l.taken.L = &l.mu
	return l
}

// lock takes the lock. In an arena, an earlier call may have ended in the middle, by a
// panic: its output becomes an entry first. Every caller unlocks by defer. If a panic left
// the log locked, deferred calls of other packages that use the log would wait for
// ever, and the program would not end.
func (l *Log) lock() {
	l.mu.Lock()
	l.repairOrUnlock()
}

// repairOrUnlock unlocks if the repair panics: the caller has not deferred its unlocking
// yet.
func (l *Log) repairOrUnlock() {
	done := false
	defer func() {
		if !done {
			l.mu.Unlock()
		}
	}()
	l.repairLocked()
	done = true
}

// repairLocked makes an entry of output that an earlier call has left behind the last record. While a Fill moves bytes it does nothing: the
// Fill makes an entry of them in the end. An entry for each of the parts could need more room than the segment has.
func (l *Log) repairLocked() {
	if l.history.slot != nil && !l.taking {
		repair(&l.history)
	}
}

// unlocked calls f without the lock, for a call that has it and will unlock by defer.
func (l *Log) unlocked(f func()) {
	l.mu.Unlock()
	defer l.lockAgain()
	f()
}

// lockAgain is lock for a call that will unlock by defer also after a panic in lockAgain.
func (l *Log) lockAgain() {
	l.mu.Lock()
	l.repairLocked()
}

// Append records output. It copies p. It waits while too much is unreleased, or
// while the spool is full and the newest megabyte is unreleased. Output of an
// Append that began before Cut is recorded completely.
func (l *Log) Append(s Stream, p []byte) error {
	for begun := false; len(p) > 0; begun = true {
		n := min(len(p), MaxEntry)
		listeners, err := l.append(s, p[:n], begun)
		if err != nil {
			return err
		}
		announce(listeners, n <= urgentSize)
		p = p[n:]
	}
	return nil
}

func (l *Log) append(s Stream, p []byte, begun bool) ([]*listener, error) {
	l.lock()
	defer l.mu.Unlock()
	for len(p) > 0 {
		room, now, err := l.admitLocked(demand{stream: s, least: len(p), most: len(p), begun: begun})
		if err == nil {
			err = l.history.put(p[:room])
		}
		if noMemory(err) {
			l.awaitMemoryLocked()
			continue
		}
		if err != nil {
			return nil, err
		}
		l.history.settle(now)
		p, begun = p[room:], true
	}
	return l.listeners, nil
}

// Exit records that the process itself has ended. It is always admitted.
func (l *Log) Exit(code int) { announce(l.exit(code), true) }

func (l *Log) exit(code int) []*listener {
	l.lock()
	defer l.mu.Unlock()
	if h := &l.history; h.exitSeq == 0 && h.closeSeq == 0 && !l.ended {
		if l.taking { // what a Fill has moved came before the exit
			h.settle(time.Time{})
		}
		h.end(Exited, code)
	}
	return l.listeners
}

// Close records that no more output will come. It is always admitted. An Append
// that waits for room returns ErrCut.
func (l *Log) Close() { announce(l.close(), true) }

func (l *Log) close() []*listener {
	l.lock()
	defer l.mu.Unlock()
	l.awaitTakenLocked() // nothing follows the close
	if h := &l.history; h.closeSeq == 0 && !l.ended {
		h.end(Closed, 0)
		l.room.open()
	}
	return l.listeners
}

// Cut ends the recording of output: the output of waiting Appends is still
// recorded, later calls return ErrCut. Exit and Close may follow.
func (l *Log) Cut() {
	l.lock()
	defer l.mu.Unlock()
	l.room.cut = true
	l.room.open()
}

// End drops all entries and makes every later call fail.
func (l *Log) End() {
	listeners, idle := l.end()
	announce(listeners, false)
	if idle {
		l.overflow.close()
	}
}

// end is End without the calls that need no lock. idle says whether the spool is to be
// closed: otherwise there is none, or the Append that uses it closes it.
func (l *Log) end() (listeners []*listener, idle bool) {
	l.lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, false
	}
	l.ended = true
	if slot := l.history.slot; slot != nil {
		slot.LogEnded.Store(1, pointEnded) // before the blocks are free
		l.history.slot = nil               // it may be used for another process soon
	}
	for len(l.history.segments) > 0 {
		l.dropLocked()
	}
	l.overflow.pool.ended.Add(l.history.cost.dropped)
	l.overflow.pool.leave(l)
	l.room.open()
	return l.listeners, l.overflow.spool != nil && !l.overflow.moving
}
