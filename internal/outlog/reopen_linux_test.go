//go:build amd64 || arm64

package outlog

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/arena"
)

// inArena returns a log in a new arena, and the arena.
func inArena(t testing.TB, c Config) (*testArena, *Log) {
	t.Helper()
	memory := newTestArena(t)
	t.Cleanup(memory.close)
	return memory, New(NewPool(t.TempDir(), ample), memory.config(c))
}

// next returns the arena as the next process sees it, and the log in its first slot.
func (a *testArena) next(t testing.TB) (*arena.Arena, *Log, Found, error) {
	t.Helper()
	file, err := duplicate(a.arena.File())
	if err != nil {
		t.Fatal(err)
	}
	next, err := arena.Open(file)
	if err != nil {
		file.Close()
		return nil, nil, Found{}, err
	}
	t.Cleanup(func() { next.Close() })
	var spool *os.File
	for _, held := range a.spools {
		if spool, err = duplicate(held); err != nil {
			t.Fatal(err)
		}
	}
	if len(next.Slots()) == 0 {
		return next, nil, Found{}, arena.ErrDamaged
	}
	l, found, err := Reopen(NewPool(t.TempDir(), ample), a.inSlot(Config{Retain: 300 << 10}, next.Slots()[0]), spool)
	if err != nil && spool != nil {
		spool.Close()
	}
	return next, l, found, err
}

// A process that prints nothing takes no block, and its exit and close are kept.
func TestQuietLogTakesNoBlock(t *testing.T) {
	memory, l := inArena(t, Config{})
	l.Exit(300)
	l.Close()
	next, l, found, err := memory.next(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, used := next.FreeMemory(); used != 0 || found != (Found{}) {
		t.Errorf("%d blocks are in use; found %+v", used, found)
	}
	if got := l.State(); got != (State{Next: 3, Exited: true, ExitCode: 300, Closed: true}) {
		t.Errorf("state: %+v", got)
	}
}

// Output that comes after an exit without output goes to a block, and the exit stays
// before it.
func TestOutputAfterQuietExit(t *testing.T) {
	memory, l := inArena(t, Config{})
	l.Exit(-1)
	if err := l.Append(Stdout, []byte("late")); err != nil {
		t.Fatal(err)
	}
	_, l, _, err := memory.next(t)
	if err != nil {
		t.Fatal(err)
	}
	var got []Kind
	c := l.Cursor(0)
	for c.Next(func(e Entry) { got = append(got, e.Kind) }) == nil {
	}
	if len(got) != 2 || got[0] != Exited || got[1] != Output || l.State().ExitCode != -1 {
		t.Errorf("entries %v, %+v", got, l.State())
	}
}

// CloseDelivered is called once, also if the close was delivered in another process.
func TestCloseDeliveredAcrossProcesses(t *testing.T) {
	called := 0
	memory, l := inArena(t, Config{CloseDelivered: func() { called++ }})
	l.Close()
	_, _, found, err := memory.next(t)
	if err != nil || found.CloseDelivered {
		t.Errorf("before: %+v, %v", found, err)
	}
	l.Sent(1)
	_, l, found, err = memory.next(t)
	if err != nil || !found.CloseDelivered || called != 1 {
		t.Errorf("after: %+v, %v, called %d times", found, err, called)
	}
	l.Sent(1)
}

func TestReopenEndedLog(t *testing.T) {
	memory, l := inArena(t, Config{})
	if err := l.Append(Stdout, []byte("x")); err != nil {
		t.Fatal(err)
	}
	l.End()
	next, l, _, err := memory.next(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Cursor(0).Next(nil); !errors.Is(err, ErrEnded) {
		t.Errorf("read: %v", err)
	}
	if _, used := next.FreeMemory(); used != 0 {
		t.Errorf("%d blocks are in use", used)
	}
}

// A log whose spool file is lost is damaged, not shorter.
func TestReopenWithoutSpoolFile(t *testing.T) {
	memory, l := inArena(t, Config{})
	w := writer{log: l, stream: Stdout}
	for l.Stats().Spooled == 0 {
		if err := w.write(MaxEntry); err != nil {
			t.Fatal(err)
		}
	}
	for slot, f := range memory.spools {
		f.Close()
		delete(memory.spools, slot)
	}
	if _, _, _, err := memory.next(t); !errors.Is(err, arena.ErrDamaged) || !strings.Contains(err.Error(), "spool file") {
		t.Errorf("reopened: %v", err)
	}
	l.End()
}

// Without a free block, Append waits, and goes on when another log has ended.
func TestAppendWaitsForABlock(t *testing.T) {
	a, err := arena.Create(arena.Config{Slots: 4, Blocks: 1, Journal: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var logs [2]*Log
	for i := range logs {
		slot, err := a.TakeSlot()
		if err != nil {
			t.Fatal(err)
		}
		logs[i] = New(NewPool(t.TempDir(), ample), Config{Slot: slot})
	}
	if err := logs[0].Append(Stdout, []byte("x")); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- logs[1].Append(Stdout, []byte("y")) }()
	for !logs[1].Stats().Blocked {
		select {
		case err := <-done:
			t.Fatalf("Append did not wait: %v", err)
		default:
		}
	}
	logs[1].Exit(3) // needs no block
	logs[0].End()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := logs[1].State(); s != (State{Next: 3, Exited: true, ExitCode: 3}) {
		t.Errorf("state: %+v", s)
	}
	logs[1].End()
}

// FuzzReopen damages the memory of a log. Reopen finds that out, or the log can be read to
// its end and used.
func FuzzReopen(f *testing.F) {
	f.Add(uint8(0), uint16(8), uint64(1), uint8(1), uint16(3), uint64(1))
	f.Add(uint8(0), uint16(11), uint64(1<<40), uint8(0), uint16(12), uint64(5))
	f.Add(uint8(1), uint16(5), uint64(1<<20), uint8(2), uint16(1), uint64(2))
	f.Fuzz(func(t *testing.T, where1 uint8, word1 uint16, v1 uint64, where2 uint8, word2 uint16, v2 uint64) {
		memory, l := inArena(t, Config{Retain: 300 << 10})
		w := writer{log: l, stream: Stdout}
		for i := range 30 {
			if err := w.write(1 + i*4000); err != nil {
				t.Fatal(err)
			}
			if i == 10 {
				l.Sent(l.State().Next - 1)
				l.Exit(1)
			}
		}
		starts := []int64{4096} // the slot; then the blocks
		for _, s := range l.history.segments {
			if s.content != nil {
				starts = append(starts, s.content.block.Offset()-1024)
			}
		}
		damage(t, memory.arena.File(), starts[int(where1)%len(starts)]+int64(word1%128)*8, v1)
		damage(t, memory.arena.File(), starts[int(where2)%len(starts)]+int64(word2%128)*8, v2)
		_, again, _, err := memory.next(t)
		l.overflow.spool.close()
		if err != nil {
			if !errors.Is(err, arena.ErrDamaged) && !errors.Is(err, arena.ErrFull) {
				t.Fatal(err)
			}
			return
		}
		readDamaged(t, again)
		again.End()
	})
}

// damage changes a word of a file.
func damage(t *testing.T, f *os.File, offset int64, v uint64) {
	t.Helper()
	var b [8]byte
	if _, err := f.ReadAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(b[:], binary.LittleEndian.Uint64(b[:])^v)
	if _, err := f.WriteAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
}

// readDamaged reads a log, whose bytes may be wrong, and appends to it.
func readDamaged(t *testing.T, l *Log) {
	l.Append(Stderr, []byte("more"))
	c := l.Cursor(l.Stats().First - 1)
	n := uint64(0)
	for {
		err := c.Next(func(e Entry) { n += uint64(len(e.Data)) })
		if err != nil {
			if !errors.Is(err, ErrNone) && !errors.Is(err, io.EOF) && !errors.Is(err, ErrEnded) && !errors.Is(err, ErrEvicted) {
				t.Fatal(err)
			}
			break
		}
	}
	l.Exit(2)
	l.Close()
	l.Sent(c.Seq())
}

// The time for which a log was full survives the process. If that has died meanwhile, the command has waited ever since. A
// slot of a program that did not know of this has no such time.
func TestBlockedTimeSurvives(t *testing.T) {
	for name, test := range map[string]struct {
		serial      uint64 // added to the serial number
		before, ago time.Duration
		least, most time.Duration
	}{
		"full before":    {0, time.Minute, 0, time.Minute, time.Minute},
		"full until now": {0, time.Minute, time.Hour, time.Hour + time.Minute, 2 * time.Hour},
		"older program":  {1, time.Minute, time.Hour, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			memory, l := inArena(t, Config{})
			words := &l.history.slot.Usage
			words.Begun.Store(l.history.slot.Serial.Load()+test.serial, pointBlocked)
			words.BlockedBefore.Store(uint64(test.before), pointBlocked)
			if test.ago > 0 {
				words.BlockedSince.Store(uint64(time.Now().Add(-test.ago).UnixNano()), pointBlocked)
			}
			for range 2 { // the second process does not count it again
				_, next, _, err := memory.next(t)
				if err != nil {
					t.Fatal(err)
				}
				if d := next.BlockedFor(); d < test.least || d > test.most {
					t.Errorf("blocked for %v", d)
				}
			}
		})
	}
}

// Readers that come again and again while a Fill moves bytes make no entry of each part: a segment with more entries than it has room for would be
// damaged for the next process. What came before an exit is before it.
func TestReadersDuringAFill(t *testing.T) {
	memory, l := inArena(t, Config{})
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	const part, rounds = 500, 8
	c, parts, before := l.Cursor(0), 0, 0
	original := moveBytes
	defer func() { moveBytes = original }()
	moveBytes = func(slot *arena.Slot, pipe, n int) (int, error) {
		moved, err := original(slot, pipe, min(n, part))
		for c.Next(func(Entry) {}) == nil {
		}
		if parts++; parts == 150 {
			l.Exit(7)
		}
		if parts <= 150 {
			before += max(moved, 0)
		}
		return moved, err
	}
	text := make([]byte, MaxEntry)
	for range rounds {
		if n, err := unix.Write(fds[1], text); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
		for err := error(nil); err == nil; {
			if _, err = l.Fill(Stdout, fds[0], nil); err != nil && err != unix.EAGAIN {
				t.Fatal(err)
			}
		}
	}
	_, l, _, err := memory.next(t)
	if err != nil {
		t.Fatal(err)
	}
	total, entries, early := 0, 0, -1
	for c := l.Cursor(0); ; {
		if c.Next(func(e Entry) {
			entries++
			if total += len(e.Data); e.Kind == Exited {
				early = total
			}
		}) != nil {
			break
		}
	}
	if total != rounds*MaxEntry || early != before || entries > 2*rounds+4 {
		t.Errorf("%d bytes, want %d; %d of them before the exit, want %d; %d entries", total, rounds*MaxEntry, early, before, entries)
	}
}
