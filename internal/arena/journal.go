package arena

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/tetherexec/tether/internal/crash"
)

const (
	// journalStep is how much of a half is allocated at a time.
	journalStep = 64 << 10

	// rewriteFrom is how long the journal is before it is rewritten because half of it is
	// dead: below it, that would save nothing.
	rewriteFrom = 256 << 10

	// noteHead is the size of a note's head: length, kind, 0, checksum, 0.
	noteHead = 16

	// MaxNote limits the payload of a note: a longer one in a file is damage. The longest
	// are the parameters of a start, with the environment of a command.
	MaxNote = 64 << 20
)

// A NoteKind says what a note is about. A program that does not know a kind with
// Skippable skips it; any other unknown kind means ErrNewer.
type NoteKind uint16

// Skippable marks the kinds that an older program may skip.
const Skippable NoteKind = 1 << 15

// A Journal is a list of notes. A note is written once and stays until it is dropped:
// parameters of a session or a start, ids of writes. It survives in order.
//
// Dropping is not written down: when the journal is rewritten, the dropped notes are left
// out, and until then a later reader finds them again. So a note that makes others
// meaningless, such as the end of a session, is dropped together with them.
type Journal struct {
	arena *Arena

	mu        sync.Mutex // guards the fields below
	notes     []*Note    // in order; dropped ones stay until the journal is rewritten
	dead      int64      // bytes of dropped notes
	allocated int64      // bytes of the current half that have pages
	damage    error      // what open has found
	rewrite   bool       // the damage is still in the file, and must not come before further notes
}

// A Note is one record of the journal.
type Note struct {
	offset  int64 // of its head in its half
	size    int64 // with head and padding
	dropped bool
}

// half is the beginning of a half of the journal.
type half struct {
	length Word // bytes that are valid, with this head
}

var (
	pointNote   = crash.NewPoint("arena.journal.note")
	pointCommit = crash.NewPoint("arena.journal.commit")
	pointCopy   = crash.NewPoint("arena.journal.copy")
	pointSwitch = crash.NewPoint("arena.journal.switch")
)

// current is the half that counts.
func (j *Journal) current() uint64 { return j.arena.header.half.Load() }

func (j *Journal) half(i uint64) *half { return at[half](j.arena.mem, j.arena.halfAt(i)) }

// bytes is the memory of a half from offset on.
func (j *Journal) bytes(i uint64, offset, size int64) []byte {
	from := j.arena.halfAt(i) + offset
	return j.arena.mem[from : from+size : from+size]
}

// prepare makes an empty half.
func (j *Journal) prepare(i uint64) error {
	size := min(journalStep, int64(j.arena.halfSize))
	if err := j.arena.allocate(j.arena.halfAt(i), size); err != nil {
		return err
	}
	j.allocated = size
	j.half(i).length.Store(journalHead, pointCopy)
	return nil
}

// Append adds a note. It returns ErrFull if there is no room for it.
func (j *Journal) Append(kind NoteKind, payload ...[]byte) (*Note, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	length := 0
	for _, p := range payload {
		length += len(p)
	}
	if length > MaxNote {
		return nil, fmt.Errorf("%w: a note of %d bytes", ErrFull, length)
	}
	n := &Note{size: noteSize(length)}
	used := int64(j.half(j.current()).length.Load())
	if j.rewrite || used >= rewriteFrom && j.dead > used/2 || used+n.size > int64(j.arena.halfSize) && j.dead >= n.size {
		if err := j.rewriteLocked(); err != nil {
			return nil, err
		}
		used = int64(j.half(j.current()).length.Load())
	}
	if err := j.growLocked(j.current(), used+n.size); err != nil {
		return nil, err
	}
	n.offset = used
	writeNote(j.bytes(j.current(), used, n.size), kind, length, payload)
	pointNote.Passed()
	j.half(j.current()).length.Store(uint64(used+n.size), pointCommit)
	j.notes = append(j.notes, n)
	return n, nil
}

// noteSize is the size of a note with a payload of the given length: notes begin at
// multiples of 8.
func noteSize(length int) int64 { return (noteHead + int64(length) + 7) &^ 7 }

func writeNote(b []byte, kind NoteKind, length int, payload [][]byte) {
	binary.LittleEndian.PutUint32(b, uint32(length))
	binary.LittleEndian.PutUint16(b[4:], uint16(kind))
	binary.LittleEndian.PutUint16(b[6:], 0)
	at := noteHead
	for _, p := range payload {
		at += copy(b[at:], p)
	}
	clear(b[at:])
	binary.LittleEndian.PutUint32(b[8:], noteChecksum(b))
	binary.LittleEndian.PutUint32(b[12:], 0)
}

// noteChecksum covers everything but itself.
func noteChecksum(b []byte) uint32 {
	table := castagnoli()
	return crc32.Update(crc32.Checksum(b[:8], table), table, b[noteHead:])
}

// growLocked allocates the memory of the first size bytes of a half.
func (j *Journal) growLocked(i uint64, size int64) error {
	if size > int64(j.arena.halfSize) {
		return fmt.Errorf("%w: the journal is full", ErrFull)
	}
	if size <= j.allocated {
		return nil
	}
	to := min((size+journalStep-1)/journalStep*journalStep, int64(j.arena.halfSize))
	if err := j.arena.allocate(j.arena.halfAt(i)+j.allocated, to-j.allocated); err != nil {
		return err
	}
	j.allocated = to
	return nil
}

// rewriteLocked copies the notes that are not dropped to the other half and makes that
// one count.
func (j *Journal) rewriteLocked() error {
	from, before := j.current(), j.allocated
	to := 1 - from
	if err := j.copyLocked(from, to); err != nil {
		j.allocated = before
		j.arena.punch(j.arena.halfAt(to), int64(j.arena.halfSize))
		return err
	}
	live := slices.DeleteFunc(j.notes, func(n *Note) bool { return n.dropped })
	offset := int64(journalHead)
	for _, n := range live {
		n.offset = offset
		offset += n.size
	}
	j.notes, j.dead, j.rewrite = live, 0, false
	j.arena.header.half.Store(to, pointSwitch) // last: after a panic here, other goroutines may still append
	j.arena.punch(j.arena.halfAt(from), int64(j.arena.halfSize))
	pointPunch.Passed()
	return nil
}

func (j *Journal) copyLocked(from, to uint64) error {
	if err := j.prepare(to); err != nil {
		return err
	}
	used := int64(journalHead)
	for _, n := range j.notes {
		if n.dropped {
			continue
		}
		if err := j.growLocked(to, used+n.size); err != nil {
			return err
		}
		copy(j.bytes(to, used, n.size), j.bytes(from, n.offset, n.size))
		used += n.size
	}
	pointCopy.Passed()
	j.half(to).length.Store(uint64(used), pointCopy)
	return nil
}

// Drop marks notes as no longer needed. nil notes are ignored.
func (j *Journal) Drop(notes ...*Note) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range notes {
		if n != nil && !n.dropped {
			n.dropped = true
			j.dead += n.size
		}
	}
}

// ErrUnknownKind is returned by a function that is given to Replay, for a kind of note that
// it does not know.
var ErrUnknownKind = errors.New("unknown kind of note")

// Replay passes the notes that are not dropped to visit, in order, until it returns an error.
// The payload is valid during the call only. visit must not call the journal.
func (j *Journal) Replay(visit func(n *Note, kind NoteKind, payload []byte) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range j.notes {
		if n.dropped {
			continue
		}
		b := j.bytes(j.current(), n.offset, n.size)
		kind, length := NoteKind(binary.LittleEndian.Uint16(b[4:])), binary.LittleEndian.Uint32(b)
		err := visit(n, kind, b[noteHead:noteHead+length:noteHead+length])
		if errors.Is(err, ErrUnknownKind) {
			if kind&Skippable != 0 {
				continue
			}
			err = fmt.Errorf("note of kind %d: %w", kind, ErrNewer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// open finds the notes of an existing journal. A note that is damaged is left out, and so is everything
// behind one whose length is not possible.
func (j *Journal) open() error {
	i := j.current()
	if i > 1 {
		return fmt.Errorf("%w: the journal has no half %d", ErrDamaged, i)
	}
	length := j.half(i).length.Load()
	if length < journalHead || length > j.arena.halfSize {
		return fmt.Errorf("%w: the journal has %d bytes", ErrDamaged, length)
	}
	for offset := int64(journalHead); offset < int64(length); {
		n, err := j.check(i, offset, int64(length)-offset)
		if err == nil {
			j.notes = append(j.notes, n)
		} else if j.rewrite = true; j.damage == nil {
			j.damage = fmt.Errorf("note at %d of the journal: %w", offset, err)
		}
		if n == nil {
			break
		}
		offset += n.size
	}
	return nil
}

// Damage says what Open has found to be damaged, and left out; nil: nothing.
func (j *Journal) Damage() error { return j.damage }

// check returns the note at an offset, of which left bytes are left; also if only its content is damaged.
func (j *Journal) check(i uint64, offset, left int64) (*Note, error) {
	if left < noteHead {
		return nil, fmt.Errorf("%w: truncated", ErrDamaged)
	}
	b := j.bytes(i, offset, left)
	length := binary.LittleEndian.Uint32(b)
	n := &Note{offset: offset, size: noteSize(int(length))}
	if length > MaxNote || n.size > left {
		return nil, fmt.Errorf("%w: truncated", ErrDamaged)
	}
	if noteChecksum(b[:n.size]) != binary.LittleEndian.Uint32(b[8:]) {
		return n, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	return n, nil
}
