//go:build amd64 || arm64

package arena

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/crash"
)

var small = Config{Slots: 16, Blocks: 8, Journal: 2 * journalStep}

func create(t testing.TB, c Config) *Arena {
	t.Helper()
	a, err := Create(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// again opens the arena a second time, as the next process does.
func (a *Arena) again(t testing.TB) *Arena {
	t.Helper()
	b, err := Open(a.copyFile(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func (a *Arena) copyFile(t testing.TB) *os.File {
	t.Helper()
	fd, err := unix.Dup(a.fd)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "arena")
}

func take(t testing.TB, a *Arena) *Slot {
	t.Helper()
	s, err := a.TakeSlot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var pointTest = crash.NewPoint("arena.test")

// memory is how many bytes of memory a file takes.
func memory(t testing.TB, f *os.File) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestDefaultArenaTakesLittleMemory(t *testing.T) {
	a := create(t, Config{})
	take(t, a)
	if got := memory(t, a.File()); got > 128<<10 {
		t.Errorf("an arena with one slot takes %d bytes", got)
	}
}

func TestSlotsSurvive(t *testing.T) {
	a := create(t, small)
	var slots []*Slot
	for range 3 {
		slots = append(slots, take(t, a))
	}
	slots[0].Pid.Store(4711, pointTest)
	slots[2].State.Store(5, pointTest)
	slots[1].Free()
	b := a.again(t)
	found := b.Slots()
	if len(found) != 2 || found[0].Index() != 0 || found[1].Index() != 2 {
		t.Fatalf("found slots %v", found)
	}
	if found[0].Pid.Load() != 4711 || found[1].State.Load() != 5 || found[0].Serial.Load() != 1 || found[1].Serial.Load() != 3 {
		t.Errorf("slots are %+v and %+v", *found[0].SlotWords, *found[1].SlotWords)
	}
	if s := take(t, b); s.Index() != 1 || s.Serial.Load() != 4 {
		t.Errorf("the next slot is %d, serial number %d", s.Index(), s.Serial.Load())
	}
}

// A slot that is used again has no words of its last use.
func TestSlotsAreCleared(t *testing.T) {
	a := create(t, small)
	s := take(t, a)
	s.Pid.Store(1, pointTest)
	s.Off.Store(1, pointTest)
	s.Free()
	if s = take(t, a); s.Pid.Load() != 0 || s.Off.Load() != 0 {
		t.Errorf("slot is %+v", *s.SlotWords)
	}
}

func TestAllSlotsInUse(t *testing.T) {
	a := create(t, small)
	for range small.Slots {
		take(t, a)
	}
	if _, err := a.TakeSlot(); !errors.Is(err, ErrFull) {
		t.Errorf("one slot more: %v", err)
	}
}

// newBlock adds a block with n records to the log in s.
func newBlock(t testing.TB, s *Slot, first uint64, prev *Block, n int) *Block {
	t.Helper()
	b, err := s.arena.NewBlock(s, first, 0, prev)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Reserve(n); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		b.Put(i, Record{Kind: 1, Stream: 1, At: int64(first) + int64(i)})
		b.Commit(i+1, pointTest)
	}
	s.Off.Store(uint64(b.Offset()), pointTest)
	return b
}

func TestBlocksOfLogsAreFound(t *testing.T) {
	a := create(t, small)
	one, two := take(t, a), take(t, a)
	first := newBlock(t, one, 1, nil, 5000)
	other := newBlock(t, two, 1, nil, 1)
	last := newBlock(t, one, 5001, first, 3)
	if _, err := a.NewBlock(two, 2, 0, other); err != nil { // Off does not point to it
		t.Fatal(err)
	}
	b := a.again(t)
	found := b.Slots()[0].Found()
	if len(found) != 2 || found[0].index != first.index || found[1].index != last.index {
		t.Fatalf("found blocks %+v", found)
	}
	for i := range 5000 {
		if r := found[0].Record(i); r.At != int64(1+i) {
			t.Fatalf("record %d is %+v", i, r)
		}
	}
	if len(b.blocks.holes) != 1 || b.blocks.holes[0] != 3 {
		t.Errorf("blocks without pages: %v", b.blocks.holes)
	}
	// Entries that are forgotten, or in the spool file, need no block.
	for _, word := range []*Word{&one.First, &one.Memory} {
		word.Store(5001, pointTest)
		if found := a.again(t).Slots()[0].Found(); len(found) != 1 || found[0].index != last.index {
			t.Errorf("found blocks %+v", found)
		}
		word.Store(0, pointTest)
	}
	one.LogEnded.Store(1, pointTest)
	if found := a.again(t).Slots()[0].Found(); len(found) != 0 {
		t.Errorf("found blocks %+v", found)
	}
}

// The block that was used last is taken first. Of free blocks, not more than spareMemory
// keeps its pages.
func TestFreeBlocks(t *testing.T) {
	a := create(t, Config{Slots: 4, Blocks: 64, Journal: journalStep})
	s := take(t, a)
	var blocks []*Block
	for range 32 {
		b := newBlock(t, s, 1, nil, 1)
		if err := b.Write(make([]byte, 256<<10), 0); err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, b)
	}
	full := memory(t, a.File())
	for _, b := range blocks {
		b.Free(256 << 10)
	}
	spare, used := a.FreeMemory()
	if left := memory(t, a.File()); used != 0 || spare > spareMemory || left > full-32*(256<<10)+spareMemory {
		t.Errorf("%d bytes are spare, %d of %d are left, %d blocks in use", spare, left, full, used)
	}
	for i := range 32 {
		b := newBlock(t, s, 1, nil, 1)
		if i < 8 && b.index != blocks[31-i].index {
			t.Errorf("block %d is taken, not %d", b.index, blocks[31-i].index)
		}
	}
}

func TestAllBlocksInUse(t *testing.T) {
	a := create(t, small)
	s := take(t, a)
	for range small.Blocks {
		newBlock(t, s, 1, nil, 1)
	}
	if _, err := a.NewBlock(s, 1, 0, nil); !errors.Is(err, ErrFull) {
		t.Errorf("one block more: %v", err)
	}
}

// Data and records of a segment do not overlap, whatever its entries are.
func TestSegmentFits(t *testing.T) {
	const cost, overhead, limit = 260 << 10, 64, 64 << 10 // of package outlog
	for n := 1; n <= cost/overhead+3; n++ {
		data := min(cost-n*overhead, n*limit) // exit, close and a repair may exceed the cost
		if records := max(0, n+3-headRecords) * recordSize; data+records > BlockData {
			t.Fatalf("%d entries: %d bytes and %d of records", n, data, records)
		}
	}
}

func appendNote(t testing.TB, j *Journal, kind NoteKind, text string) *Note {
	t.Helper()
	n, err := j.Append(kind, []byte(text[:len(text)/2]), []byte(text[len(text)/2:]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// notes returns what the next process reads.
func notes(t testing.TB, a *Arena) (list []string) {
	t.Helper()
	err := a.again(t).journal.Replay(func(_ *Note, kind NoteKind, payload []byte) error {
		list = append(list, fmt.Sprintf("%d %.20s", kind, payload))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestJournalKeepsNotesInOrder(t *testing.T) {
	a := create(t, small)
	var want []string
	for i := range 100 {
		appendNote(t, &a.journal, NoteKind(i), strings.Repeat("x", i))
		want = append(want, fmt.Sprintf("%d %.20s", i, strings.Repeat("x", i)))
	}
	if got := notes(t, a); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v", got)
	}
}

// The journal is rewritten when it is full, and dropped notes are left out. Notes that were not
// dropped can still be dropped later.
func TestJournalIsRewritten(t *testing.T) {
	a := create(t, small)
	var kept []*Note
	rewritten, half := 0, a.journal.current()
	for i := range 5000 {
		n := appendNote(t, &a.journal, 1, fmt.Sprintf("%d %s", i, strings.Repeat("x", 200)))
		if now := a.journal.current(); now != half {
			rewritten, half = rewritten+1, now
		}
		if i%500 == 0 {
			kept = append(kept, n)
		} else {
			a.journal.Drop(n)
		}
	}
	if rewritten < 5 {
		t.Fatalf("the journal was rewritten %d times", rewritten)
	}
	got := map[string]bool{}
	for _, text := range notes(t, a) {
		got[strings.Fields(text)[1]] = true
	}
	for i := range kept {
		if !got[fmt.Sprint(i*500)] {
			t.Errorf("note %d is missing", i*500)
		}
	}
	a.journal.Drop(kept...)
	a.journal.mu.Lock()
	defer a.journal.mu.Unlock()
	if err := a.journal.rewriteLocked(); err != nil {
		t.Fatal(err)
	}
	if got := notes(t, a); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestFullJournal(t *testing.T) {
	a := create(t, small)
	text := strings.Repeat("x", 1000)
	var last *Note
	for {
		n, err := a.journal.Append(1, []byte(text))
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = n
	}
	a.journal.Drop(last)
	appendNote(t, &a.journal, 2, text)
	if got := notes(t, a); len(got) < 100 || !strings.HasPrefix(got[len(got)-1], "2 ") {
		t.Errorf("%d notes", len(got))
	}
}

func TestUnknownNotes(t *testing.T) {
	a := create(t, small)
	appendNote(t, &a.journal, 7|Skippable, "later")
	visited := 0
	unknown := func(*Note, NoteKind, []byte) error { visited++; return ErrUnknownKind }
	if err := a.journal.Replay(unknown); err != nil || visited != 1 {
		t.Errorf("a note that may be skipped: %v", err)
	}
	appendNote(t, &a.journal, 7, "later")
	if err := a.journal.Replay(unknown); !errors.Is(err, ErrNewer) {
		t.Errorf("a note that must be known: %v", err)
	}
	if len(notes(t, a)) != 2 {
		t.Error("a skipped note is gone")
	}
}

func TestInspectChangesNothing(t *testing.T) {
	a := create(t, small)
	s := take(t, a)
	newBlock(t, s, 1, nil, 1)
	newBlock(t, s, 2, nil, 1) // does not follow the first: damage
	appendNote(t, &a.journal, 1, "x")
	before := memory(t, a.File())
	f := a.copyFile(t)
	b, err := Inspect(f)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Slots()[0].Err(); !errors.Is(err, ErrDamaged) || memory(t, a.File()) != before {
		t.Errorf("slot: %v", err)
	}
}

// Files that are no arena, and arenas that a newer program has made, are refused with a
// reason.
func TestOpenRefuses(t *testing.T) {
	foreign, err := os.Open("arena_linux_test.go") // directories for temporary files may be in memory
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	empty, err := createFile("", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	zeros, err := createFile("", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer zeros.Close()
	changed := func(change func(a *Arena)) *os.File {
		a := create(t, small)
		change(a)
		return a.File()
	}
	truncated := func() *os.File {
		a := create(t, small)
		f, err := createFile("", a.size()-page)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.WriteAt(a.mem[:page], 0); err != nil {
			t.Fatal(err)
		}
		return f
	}
	for name, test := range map[string]struct {
		file *os.File
		err  error
		text string
	}{
		"file on disk":  {foreign, ErrDamaged, "not a memory file"},
		"empty":         {empty, ErrDamaged, "truncated"},
		"zeros":         {zeros, ErrDamaged, "not an arena"},
		"truncated":     {truncated(), ErrDamaged, "bytes instead of"},
		"newer":         {changed(func(a *Arena) { a.header.version = Version + 1 }), ErrNewer, "version 2"},
		"geometry":      {changed(func(a *Arena) { a.header.slotCount++ }), ErrDamaged, "header"},
		"slots":         {changed(func(a *Arena) { a.header.slotsUsed.Store(17, pointTest) }), ErrDamaged, "17 of 16 slots"},
		"half":          {changed(func(a *Arena) { a.header.half.Store(2, pointTest) }), ErrDamaged, "half 2"},
		"short journal": {changed(func(a *Arena) { a.journal.half(0).length.Store(1, pointTest) }), ErrDamaged, "1 bytes"},
	} {
		a, err := Open(test.file)
		if !errors.Is(err, test.err) || !strings.Contains(fmt.Sprint(err), test.text) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			a.Close()
		}
	}
}

// A damaged note is left out, and so is everything behind a note without an end. What is appended then is found again.
func TestOpenLeavesDamagedNotesOut(t *testing.T) {
	size := noteSize(len("text"))
	for name, test := range map[string]struct {
		damage func(b []byte) // of the second note
		left   []string
	}{
		"checksum": {func(b []byte) { b[noteHead] ^= 1 }, []string{"1 text", "3 text", "4 more"}},
		"length":   {func(b []byte) { b[2] = 0xff }, []string{"1 text", "4 more"}},
	} {
		a := create(t, small)
		for kind := range NoteKind(3) {
			appendNote(t, &a.journal, kind+1, "text")
		}
		test.damage(a.journal.bytes(0, journalHead+size, size))
		if _, err := Inspect(a.copyFile(t)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: Inspect: %v", name, err)
		}
		b := a.again(t)
		if err := b.journal.Damage(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		appendNote(t, &b.journal, 4, "more")
		if got, damage := notes(t, b), b.again(t).journal.Damage(); !slices.Equal(got, test.left) || damage != nil {
			t.Errorf("%s: %q, %v", name, got, damage)
		}
	}
}

// FuzzOpen damages an arena. Open finds that out, or everything that it has found can be
// used.
func FuzzOpen(f *testing.F) {
	f.Add(uint32(page+64), uint64(1), uint32(8), uint64(2))
	f.Add(uint32(0), uint64(7), uint32(8), uint64(1<<40))
	f.Add(uint32(page+SlotSize), uint64(1<<63), uint32(page+8), uint64(3))
	f.Fuzz(func(t *testing.T, at1 uint32, v1 uint64, at2 uint32, v2 uint64) {
		a := create(t, small)
		one, two := take(t, a), take(t, a)
		first := newBlock(t, one, 1, nil, 100)
		newBlock(t, one, 101, first, 3)
		newBlock(t, two, 1, nil, 1)
		appendNote(t, &a.journal, 1, "some text")
		appendNote(t, &a.journal, 2, "more text")
		for _, change := range []struct {
			at uint32
			v  uint64
		}{{at1, v1}, {at2, v2}} {
			*at[uint64](a.mem, int64(change.at)%(a.mapped()-8)&^7) ^= change.v
		}
		b, err := Open(a.copyFile(t))
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Fatal(err)
			}
			return
		}
		defer b.Close()
		use(t, b)
	})
}

// use reads everything that an arena has, and adds to it until it is full.
func use(t *testing.T, a *Arena) {
	err := a.journal.Replay(func(_ *Note, _ NoteKind, payload []byte) error {
		_ = bytes.Clone(payload)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for _, s := range a.Slots() {
		for _, b := range s.Found() {
			if seen[b.index] {
				t.Errorf("block %d belongs to two logs", b.index)
			}
			seen[b.index] = true
			for i := range b.Count() {
				_ = b.Record(i)
			}
		}
	}
	s, err := a.TakeSlot()
	if err != nil {
		if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		s = a.Slots()[0]
	}
	for {
		b, err := a.NewBlock(s, 1, 0, nil)
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if seen[b.index] {
			t.Errorf("block %d is in use and free", b.index)
		}
		seen[b.index] = true
	}
	for _, s := range a.Slots() {
		s.Free()
	}
}
