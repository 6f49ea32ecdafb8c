package outlog

import (
	"bytes"
	"errors"
	"io"
	"math/bits"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A choice makes a decision for the model: a number from 0 to n-1.
type choice func(what string, n int) int

// failer is the part of testing.TB that the model needs.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// An event was written to a log, in order. Entries may divide output differently.
type event struct {
	kind   Kind
	stream Stream
	size   int
	code   int
}

// A model describes how a log must behave, together with a client that reads
// everything in order and reports it as sent, and observers at random positions.
type model struct {
	t       failer
	log     *Log
	config  Config
	tight   bool // the pool is short: sent entries may be dropped early
	writers [3]writer

	events   []event
	at, off  int      // position of the client in events
	read     [4]int64 // and in each stream
	client   *Cursor
	seen     map[uint64]sighting
	costs    []int64 // costs[n] is the cost of the entries 1 to n, which the client has seen
	sent     uint64
	appended int64 // upper bound for the cost of all entries

	exitSeq, closeSeq uint64
	exitCode          int
	cut               bool
	observers         [3]*Cursor
}

func newModel(t failer, pool *Pool, c Config, tight bool) *model {
	m := &model{t: t, log: New(pool, c), config: c, tight: tight, seen: map[uint64]sighting{}, costs: []int64{0}}
	m.client = m.log.Cursor(0)
	for i := range m.writers {
		m.writers[i] = writer{log: m.log, stream: Stream(i + 1)}
	}
	for i := range m.observers {
		m.observers[i] = m.log.Cursor(0)
	}
	return m
}

func (m *model) unsent() int64 { return m.appended - m.costs[m.sent] }

// step does one thing to the log.
func (m *model) step(pick choice) {
	switch op := pick("op", 100); {
	case op < 45:
		size := pick("size", []int{200, MaxEntry + 1, 200<<10 + 1}[pick("magnitude", 3)])
		m.append(pick("stream", 3), size)
	case op < 60:
		m.clientReads([]int{1, 3, 20, 1000}[pick("entries", 4)])
	case op < 72:
		m.report(m.sent + uint64(pick("sent", int(m.client.Seq()-m.sent)+1)))
	case op < 86:
		m.observe(m.observers[pick("observer", 3)], pick, []int{1, 5, 1000}[pick("entries", 3)])
	case op < 90:
		m.goBack(m.observers[pick("observer", 3)], uint64(pick("before", int(m.log.State().Next)+3)), int64(pick("cost", []int{1000, MaxEntry, 2 << 20}[pick("magnitude", 3)])))
	case op < 94:
		m.checkState(uint64(pick("next", int(m.log.State().Next)+3)))
	case op < 96:
		m.exit(pick("code", 256))
	case op == 96 && pick("cut", 20) == 1:
		m.log.Cut()
		m.cut = true
	case op == 97 && pick("close", 20) == 1:
		m.close()
	default:
		m.clientReads(1 << 30)
		m.report(m.client.Seq())
	}
	m.checkFigures()
}

// append writes output that must be accepted at once. If there is no room for it,
// the client reads first.
func (m *model) append(w, size int) {
	m.t.Helper()
	cost := int64(size + (size/MaxEntry+2)*EntryOverhead)
	room := m.unsent()+cost <= memoryCost
	if !m.tight {
		room = m.log.Stats().Unsent+cost <= m.config.Limit
	}
	if !room {
		m.clientReads(1 << 30)
		m.report(m.client.Seq())
	}
	before := m.log.State().Next
	stream := m.writers[w].stream
	done := make(chan error, 1)
	go func() { done <- m.writers[w].write(size) }()
	var err error
	select {
	case err = <-done:
	case <-time.After(testTimeout):
		m.log.End() // so that no goroutine is left
		<-done
		m.t.Fatalf("append of %d bytes waits with %d unsent: %+v", size, m.unsent(), m.log.Stats())
	}
	if refused := size > 0 && (m.cut || m.closeSeq != 0); refused {
		if !errors.Is(err, ErrCut) || m.log.State().Next != before {
			m.t.Fatalf("append after cut or close: %v", err)
		}
		m.writers[w].offset -= int64(size)
		return
	}
	if err != nil {
		m.t.Fatalf("append: %v", err)
	}
	m.appended += cost
	if size > 0 {
		m.events = append(m.events, event{kind: Output, stream: stream, size: size})
	}
}

func (m *model) exit(code int) {
	next := m.log.State().Next
	m.log.Exit(code)
	if m.exitSeq == 0 && m.closeSeq == 0 {
		m.exitSeq, m.exitCode = next, code
		m.events = append(m.events, event{kind: Exited, code: code})
		m.appended += EntryOverhead
	}
}

func (m *model) close() {
	next := m.log.State().Next
	m.log.Close()
	if m.closeSeq == 0 {
		m.closeSeq = next
		m.events = append(m.events, event{kind: Closed})
		m.appended += EntryOverhead
	}
}

// clientReads lets the client read up to n entries.
func (m *model) clientReads(n int) {
	m.t.Helper()
	for range n {
		after := m.client.Seq()
		err := m.client.Next(func(e Entry) {
			m.record(after, e)
			m.consume(e)
		})
		if err != nil {
			m.checkEnd(after, err)
			if m.at < len(m.events) {
				m.t.Fatalf("%v with %d events to come", err, len(m.events)-m.at)
			}
			m.appended = m.costs[len(m.costs)-1]
			return
		}
	}
}

// checkEnd checks the result of reading beyond the last entry.
func (m *model) checkEnd(after uint64, err error) {
	m.t.Helper()
	want := ErrNone
	if m.closeSeq != 0 {
		want = io.EOF
	}
	if !errors.Is(err, want) || after < m.log.State().Next-1 {
		m.t.Fatalf("after %d of %d: %v, want %v", after, m.log.State().Next-1, err, want)
	}
}

// record checks that an entry is the next one and that it never changes.
func (m *model) record(after uint64, e Entry) {
	m.t.Helper()
	if e.Seq != after+1 {
		m.t.Fatalf("entry %d follows %d", e.Seq, after)
	}
	if old, ok := m.seen[e.Seq]; ok && old != sight(e) {
		m.t.Fatalf("entry %d was %+v and is %+v", e.Seq, old, sight(e))
	}
	m.seen[e.Seq] = sight(e)
}

// consume checks the next entry against the events.
func (m *model) consume(e Entry) {
	m.t.Helper()
	m.costs = append(m.costs, m.costs[len(m.costs)-1]+sight(e).cost())
	if e.Kind != Output {
		if m.at == len(m.events) || m.events[m.at] != (event{kind: e.Kind, code: e.ExitCode}) || m.off > 0 {
			m.t.Fatalf("unexpected %+v", e)
		}
		m.at++
		return
	}
	if len(e.Data) == 0 || len(e.Data) > MaxEntry {
		m.t.Fatalf("entry %d has %d bytes", e.Seq, len(e.Data))
	}
	if !bytes.Equal(e.Data, pattern(e.Stream, m.read[e.Stream], len(e.Data))) {
		m.t.Fatalf("entry %d has wrong bytes", e.Seq)
	}
	m.read[e.Stream] += int64(len(e.Data))
	for left := len(e.Data); left > 0; {
		if m.at == len(m.events) || m.events[m.at].kind != Output || m.events[m.at].stream != e.Stream {
			m.t.Fatalf("entry %d is %d bytes too long", e.Seq, left)
		}
		n := min(left, m.events[m.at].size-m.off)
		left -= n
		if m.off += n; m.off == m.events[m.at].size {
			m.at, m.off = m.at+1, 0
		}
	}
}

func (m *model) report(seq uint64) {
	m.sent = max(m.sent, seq)
	m.log.Sent(seq)
}

// observe lets an observer read up to n entries, possibly from another position.
func (m *model) observe(c *Cursor, pick choice, n int) {
	m.t.Helper()
	if pick("seek", 3) == 0 {
		c.Seek(uint64(pick("after", int(m.log.State().Next)+1)))
	}
	for range n {
		after := c.Seq()
		err := c.Next(func(e Entry) { m.record(after, e) })
		switch {
		case err == nil:
			continue
		case errors.Is(err, ErrEvicted):
			if first := m.log.Stats().First; after+1 >= first || first > m.sent+1 {
				m.t.Fatalf("entry %d is evicted; %d are sent, %d is the first", after+1, m.sent, first)
			}
		default:
			m.checkEnd(after, err)
		}
		return
	}
}

// goBack lets an observer seek back, and read up to where it was asked to begin. It must find the longest run of kept entries
// that fits, or one entry.
func (m *model) goBack(c *Cursor, before uint64, cost int64) {
	m.t.Helper()
	if err := c.SeekBack(before, cost); err != nil {
		m.t.Fatalf("seek back from %d by %d: %v", before, cost, err)
	}
	first := m.log.Stats().First
	last := min(max(before, 1), m.log.State().Next) - 1
	if last < first {
		if c.Seq() != last {
			m.t.Fatalf("seek back from %d, before all entries: at %d; %d is the first", before, c.Seq(), first)
		}
		return
	}
	begin, sum := c.Seq(), int64(0)
	next := func(c *Cursor) (cost int64) {
		after := c.Seq()
		if err := c.Next(func(e Entry) {
			m.record(after, e)
			cost = sight(e).cost()
		}); err != nil {
			m.t.Fatalf("after %d, having gone back from %d: %v", after, before, err)
		}
		return cost
	}
	for c.Seq() < last {
		sum += next(c)
	}
	if begin >= last || begin+1 < first || sum > cost && begin+1 < last {
		m.t.Fatalf("seek back from %d by %d: at %d, and %d to there; %d is the first", before, cost, begin, sum, first)
	}
	if begin+1 > first {
		if earlier := next(m.log.Cursor(begin - 1)); sum+earlier <= cost {
			m.t.Fatalf("seek back from %d by %d stops at %d, though %d and %d fit", before, cost, begin, earlier, sum)
		}
	}
}

func (m *model) checkState(next uint64) {
	m.t.Helper()
	want := State{Next: min(next, m.log.State().Next)}
	if m.exitSeq != 0 && m.exitSeq < next {
		want.Exited, want.ExitCode = true, m.exitCode
	}
	want.Closed = m.closeSeq != 0 && m.closeSeq < next
	if got := m.log.StateAt(next); got != want {
		m.t.Fatalf("state at %d: %+v, want %+v", next, got, want)
	}
}

func (m *model) checkFigures() {
	m.t.Helper()
	s := m.log.Stats()
	if s.Released != m.sent || s.First > s.Released+1 || s.Blocked {
		m.t.Fatalf("%d sent: %+v", m.sent, s)
	}
	if s.Unsent < 0 || s.Unsent > s.Held || s.Spooled < 0 || s.Spooled > s.Held || s.Held-s.Spooled > memoryLimit+3*EntryOverhead {
		m.t.Fatalf("figures are off: %+v", s)
	}
	if all := s.Next - 1; m.client.Seq() == all {
		if want := m.costs[all] - m.costs[s.First-1]; s.Held != want || s.Unsent < m.costs[all]-m.costs[m.sent] {
			m.t.Fatalf("holds %d, %d are unsent: %+v", want, m.costs[all]-m.costs[m.sent], s)
		}
	}
	if m.tight {
		return
	}
	kept := m.costs[m.sent] - m.costs[min(s.First-1, m.sent)]
	if kept < min(m.config.Retain, m.costs[m.sent]) || kept > m.config.Retain+2*segmentCost {
		m.t.Fatalf("keeps %d of what was sent: %+v", kept, s)
	}
}

// finish reads to the end, closes and ends the log.
func (m *model) finish() {
	m.t.Helper()
	m.close()
	m.clientReads(1 << 30)
	m.checkState(m.log.State().Next)
	m.checkFigures()
	m.log.End()
	s := m.log.Stats()
	if s.Held != 0 || s.Unsent != 0 || s.Spooled != 0 {
		m.t.Fatalf("left after the end: %+v", s)
	}
	if err := m.client.Next(nil); !errors.Is(err, ErrEnded) {
		m.t.Fatalf("next after the end: %v", err)
	}
	if err := m.writers[0].write(1); !errors.Is(err, ErrEnded) {
		m.t.Fatalf("append after the end: %v", err)
	}
}

// checkLogs drives two logs that share a pool: on the heap, or in an arena, from which they
// are opened again now and then.
func checkLogs(t failer, dir string, steps int, pick choice) {
	total := []int64{ample, 0, 6 * segmentCost}[pick("pool", 3)]
	retain := []int64{1, 300 << 10, 1 << 20}[pick("retain", 3)]
	pool := NewPool(dir, total)
	var memory *testArena
	if pick("arena", 2) == 1 {
		memory = newTestArena(t)
		defer memory.close()
	}
	var logs [2]*model
	for i := range logs {
		logs[i] = newModel(t, pool, memory.config(Config{Retain: retain, Limit: 3 << 20}), total != ample)
	}
	defer func() {
		for _, m := range logs {
			m.log.End()
		}
	}()
	for range steps {
		if memory != nil && pick("reopen", 40) == 1 {
			pool = NewPool(dir, total)
			memory.reopen(pool, logs[:])
		}
		logs[pick("log", 2)].step(pick)
		if used := pool.Used(); used < 0 || used > total {
			t.Fatalf("%d of %d used", used, total)
		}
	}
	for _, m := range logs {
		m.finish()
	}
	checkPoolEmpty(t, pool)
	memory.checkEmpty()
}

// TestLogBehavesLikeModel checks the promises to every reader: numbers without
// gaps, bytes in order, entries that never change once read, no unsent entry
// forgotten, and Retain bytes of sent entries kept.
func TestLogBehavesLikeModel(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		checkLogs(t, dir, 1+evenly(t, "steps", 400), func(what string, n int) int { return evenly(t, what, n) })
	})
}

// evenly draws a number below n. The integers of rapid prefer small values so
// much that the logs would hardly reach their spools.
func evenly(t *rapid.T, what string, n int) int {
	v, width := 0, bits.Len(uint(n))+3
	for range width {
		v <<= 1
		if rapid.Bool().Draw(t, what) {
			v++
		}
	}
	return v * n >> width
}

// FuzzLog uses the fuzzed bytes as choices, two for each.
func FuzzLog(f *testing.F) {
	f.Add([]byte{})
	f.Add(noise[:600])
	f.Add(noise[600:3000])
	f.Fuzz(func(t *testing.T, b []byte) {
		pick := func(_ string, n int) int {
			if len(b) < 2 {
				return 0
			}
			v := int(b[0]) | int(b[1])<<8
			b = b[2:]
			return int(int64(v) * int64(n) >> 16)
		}
		checkLogs(t, t.TempDir(), min(len(b)/6, 1000), pick)
	})
}
