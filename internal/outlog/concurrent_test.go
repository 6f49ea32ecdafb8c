package outlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

// sightings are the entries that the readers of a log have seen.
type sightings struct{ m sync.Map }

// check fails if another reader saw a different entry under this number.
func (s *sightings) check(t *testing.T, e Entry) {
	if old, _ := s.m.LoadOrStore(e.Seq, sight(e)); old != sight(e) {
		t.Errorf("entry %d was %+v and is %+v", e.Seq, old, sight(e))
	}
}

// writeAll appends total bytes in pieces of changing size.
func writeAll(l *Log, s Stream, total int64) error {
	w, random := writer{log: l, stream: s}, rand.New(rand.NewPCG(uint64(s), 0))
	for w.offset < total {
		if err := w.write(int(min(total-w.offset, 1+random.Int64N(1<<(1+random.IntN(17)))))); err != nil {
			return err
		}
	}
	return nil
}

// wait returns when Ready reports true for a reader after number after, as a long
// poll does.
func wait(ctx context.Context, l *Log, after uint64) error {
	ready := make(chan struct{}, 1)
	look := func(bool) {
		if l.Ready(after) {
			select {
			case ready <- struct{}{}:
			default:
			}
		}
	}
	defer l.OnAppend(look)()
	look(false)
	select {
	case <-ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := l.Cursor(0).Next(func(Entry) {}); errors.Is(err, ErrEnded) {
		return err
	}
	return nil
}

// follow visits all entries until there is an error. It listens to the log all the
// time or, with always false, only while there is no entry.
func follow(ctx context.Context, l *Log, always bool, visit func(Entry)) error {
	wake := make(chan struct{}, 1)
	if always {
		defer l.OnAppend(func(bool) {
			select {
			case wake <- struct{}{}:
			default:
			}
		})()
	}
	c := l.Cursor(0)
	for {
		err := c.Next(visit)
		switch {
		case err == nil:
			continue
		case errors.Is(err, ErrEvicted):
			c.Seek(l.Stats().First - 1)
			continue
		case !errors.Is(err, ErrNone):
			return err
		}
		if always {
			select {
			case <-wake:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		} else if err := wait(ctx, l, c.Seq()); err != nil {
			return err
		}
	}
}

// A crowd is a log in use: two writers, a client, a goroutine that reports what the
// client got, and two observers that read as much as they can.
type crowd struct {
	log              *Log
	writers, readers sync.WaitGroup
	clientErr        error
	received         [PTY + 1]int64
}

// startCrowd starts writers of total bytes. They must return fail, and so must the
// observers, or io.EOF if fail is nil.
func startCrowd(ctx context.Context, t *testing.T, l *Log, total int64, fail error) *crowd {
	c := &crowd{log: l}
	var seen sightings
	for s := Stdout; s <= Stderr; s++ {
		c.writers.Go(func() {
			if err := writeAll(l, s, total); !errors.Is(err, fail) {
				t.Errorf("writer: %v", err)
			}
		})
	}
	var last uint64
	acks := make(chan uint64, 16)
	c.readers.Go(func() {
		c.clientErr = follow(ctx, l, false, func(e Entry) {
			if e.Seq != last+1 {
				t.Errorf("entry %d follows %d", e.Seq, last)
			}
			last = e.Seq
			seen.check(t, e)
			if e.Kind == Output && !bytes.Equal(e.Data, pattern(e.Stream, c.received[e.Stream], len(e.Data))) {
				t.Errorf("entry %d has wrong bytes", e.Seq)
			}
			c.received[e.Stream] += int64(len(e.Data))
			if e.Seq%16 == 0 {
				l.Sent(e.Seq - 8) // out of order, as acknowledgements may be
			}
			acks <- e.Seq
		})
		close(acks)
	})
	c.readers.Go(func() {
		for seq := range acks {
			l.Sent(seq)
		}
	})
	for i := range 2 {
		c.readers.Go(func() {
			if err := follow(ctx, l, i == 0, func(e Entry) { seen.check(t, e) }); !errors.Is(err, cmp.Or(fail, io.EOF)) {
				t.Errorf("observer: %v", err)
			}
		})
	}
	return c
}

func TestEveryByteArrivesOnceInOrder(t *testing.T) {
	const total = 12 << 20
	for _, test := range []struct {
		name string
		pool int64
	}{{"ample spool", ample}, {"small spool", 3 * segmentCost}, {"no spool", 0}} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			pool := NewPool(t.TempDir(), test.pool)
			l := New(pool, Config{Retain: 1 << 20, Limit: 4 << 20})
			c := startCrowd(ctx, t, l, total, nil)
			c.writers.Wait()
			l.Exit(3)
			l.Close()
			c.readers.Wait()
			if !errors.Is(c.clientErr, io.EOF) || c.received[Stdout] != total || c.received[Stderr] != total {
				t.Errorf("client got %v bytes and %v", c.received, c.clientErr)
			}
			l.End()
			if pool.Used() != 0 {
				t.Errorf("%d bytes left in the pool", pool.Used())
			}
		})
	}
}

// TestEndReleasesWaiters ends logs at different moments of their work.
func TestEndReleasesWaiters(t *testing.T) {
	pool := NewPool(t.TempDir(), 6*segmentCost)
	for i := range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		l := New(pool, Config{Retain: 1 << 20, Limit: 4 << 20})
		c := startCrowd(ctx, t, l, ample, ErrEnded)
		if err := wait(ctx, l, uint64(1+37*i)); err != nil {
			t.Fatal(err)
		}
		l.End()
		c.writers.Wait()
		c.readers.Wait()
		cancel()
		if !errors.Is(c.clientErr, ErrEnded) {
			t.Errorf("client: %v", c.clientErr)
		}
		if s := l.Stats(); s.Held != 0 || s.Unsent != 0 || s.Spooled != 0 || s.Blocked {
			t.Errorf("left after the end: %+v", s)
		}
		checkPoolEmpty(t, pool)
	}
}

func checkPoolEmpty(t failer, pool *Pool) {
	t.Helper()
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.used != 0 || pool.disk != 0 || len(pool.evictable) > 0 || len(pool.waiting) > 0 {
		t.Errorf("left in the pool: %d bytes, %d on disk, %d evictable, %d waiting", pool.used, pool.disk, len(pool.evictable), len(pool.waiting))
	}
}

// TestManyLogsShareSmallPool has logs evict each other's sent entries while their
// clients read them back from the spool.
func TestManyLogsShareSmallPool(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	pool := NewPool(t.TempDir(), 8*segmentCost)
	var crowds []*crowd
	for range 4 {
		crowds = append(crowds, startCrowd(ctx, t, New(pool, Config{Retain: 2 << 20, Limit: 4 << 20}), 4<<20, nil))
	}
	for _, c := range crowds {
		c.writers.Wait()
		c.log.Close()
		c.readers.Wait()
		if !errors.Is(c.clientErr, io.EOF) || c.received[Stdout] != 4<<20 || c.received[Stderr] != 4<<20 {
			t.Errorf("client got %v bytes and %v", c.received, c.clientErr)
		}
	}
	for _, c := range crowds {
		c.log.End()
	}
	checkPoolEmpty(t, pool)
}

// TestReaderKeepsItsBytes holds an entry in visit while its segment is spooled and
// forgotten, and its memory could be reused.
func TestReaderKeepsItsBytes(t *testing.T) {
	pool := NewPool(t.TempDir(), ample)
	l := New(pool, Config{Retain: 1, Limit: ample})
	defer l.End()
	w := writer{log: l, stream: Stdout}
	fill := func(n int) {
		for range n {
			if err := w.write(MaxEntry); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(40) // from the fifth entry on, memory is reused
	c := l.Cursor(38)
	err := c.Next(func(e Entry) {
		want := bytes.Clone(e.Data)
		fill(40)
		if got := l.Stats(); got.Spooled < 39*MaxEntry {
			t.Errorf("the entry is still in memory: %+v", got)
		}
		l.Sent(70)
		if got := l.Stats(); got.First < 40 {
			t.Errorf("the entry is still kept: %+v", got)
		}
		fill(40)
		if !bytes.Equal(e.Data, want) {
			t.Error("the entry changed while it was visited")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadDuringEviction reads spooled entries while their blocks are reused: a
// read returns the right bytes or ErrEvicted.
func TestReadDuringEviction(t *testing.T) {
	pool := NewPool(t.TempDir(), 3*segmentCost)
	l := New(pool, Config{Retain: ample, Limit: ample})
	defer l.End()
	w := writer{log: l, stream: Stdout}
	write := func() {
		if err := w.write(MaxEntry); err != nil {
			t.Error(err)
		}
		l.Sent(l.State().Next - 1)
	}
	for range 40 {
		write()
	}
	var before func() // called in the middle of Next, before it takes memory to read into
	plain := contents.New
	defer func() { contents.New = plain }()
	contents = sync.Pool{New: func() any {
		if f := before; f != nil {
			before = nil
			f()
		}
		return plain()
	}}
	for start := range 3 { // with and without knowledge of the segment
		c := l.Cursor(l.Stats().First - 1)
		visit := func(e Entry) {
			if !bytes.Equal(e.Data, pattern(Stdout, int64(e.Seq-1)*MaxEntry, len(e.Data))) {
				t.Errorf("entry %d has wrong bytes", e.Seq)
			}
		}
		for range start {
			if err := c.Next(visit); err != nil {
				t.Fatal(err)
			}
		}
		contents = sync.Pool{New: contents.New} // an empty one
		before = func() {
			for range 40 {
				write()
			}
		}
		if err := c.Next(visit); !errors.Is(err, ErrEvicted) || before != nil {
			t.Errorf("read of an entry that is being evicted: %v", err)
		}
	}
}
