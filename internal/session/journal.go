package session

import (
	"crypto/sha256"
	"fmt"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
)

// Kept says where sessions are recorded, so that [Table.Restore] of another program finds them if
// this one dies.
type Kept struct {
	Arena  *arena.Arena
	Keeper proc.Keeper
}

// The kinds of notes in the journal. Numbers up to lastKind belong to this package.
const (
	noteOpened  arena.NoteKind = 1 // a session was opened
	noteEnded   arena.NoteKind = 2 // a session has ended, and its processes have to
	noteStarted arena.NoteKind = 3 // a process is about to be started
	noteDone    arena.NoteKind = 4 // a write or another action with an id takes effect now

	lastKind arena.NoteKind = 15
)

// heldSpool is the keeper's name of the spool file of a log.
const heldSpool = proc.FirstOther

// openedNote describes a session.
func (s *Session) openedNote() []byte {
	var e reexec.Encoder
	e.Text(s.ID)
	e.Text(s.Public)
	e.Text(s.Client)
	e.Text(s.Label)
	e.Signed(s.CreatedAt.UnixNano())
	e.Signed(int64(s.TTL()))
	e.Flag(s.acks)
	return e
}

// A recordedSession is what openedNote describes.
type recordedSession struct {
	note     *arena.Note
	identity Identity
	ttl      time.Duration
	acks     bool
}

func decodeOpened(n *arena.Note, b []byte) (r *recordedSession, err error) {
	d := reexec.Decode(b)
	r = &recordedSession{note: n}
	r.identity = Identity{ID: d.Text(), Public: d.Text(), Client: d.Text(), Label: d.Text(), CreatedAt: time.Unix(0, d.Signed())}
	r.ttl, r.acks = time.Duration(d.Signed()), d.Flag()
	return r, wellFormed(d, "session")
}

func wellFormed(d *reexec.Decoder, what string) error {
	if !d.Done() {
		return fmt.Errorf("note about a %s is %w", what, arena.ErrDamaged)
	}
	return nil
}

// record records the session.
func (s *Session) record() (err error) {
	if k := s.table.config.Kept; k != nil {
		s.note, err = k.Arena.Journal().Append(noteOpened, s.openedNote())
	}
	return err
}

// recordEnd records that the session has ended, before anything of it ends.
func (s *Session) recordEnd() {
	k := s.table.config.Kept
	if k == nil || s.note == nil {
		return
	}
	var e reexec.Encoder
	e.Text(s.Public)
	var err error
	if s.endNote, err = k.Arena.Journal().Append(noteEnded, e); err != nil {
		s.log.Error("the end of a session cannot be recorded: if this server is replaced now, the session goes on", "err", err)
	}
}

func decodeEnded(b []byte) (public string, err error) {
	d := reexec.Decode(b)
	public = d.Text()
	return public, wellFormed(d, "session")
}

// unrecord drops what was recorded about the session, when nothing is left of it.
func (s *Session) unrecord() {
	if k := s.table.config.Kept; k != nil {
		k.Arena.Journal().Drop(s.note, s.endNote)
	}
}

// A slotRecord is what is recorded about one process.
type slotRecord struct {
	kept *Kept
	slot *arena.Slot
	note *arena.Note
}

// recordStart takes a slot for a process that is about to start, and records its parameters. Without
// parameters, the process is not recorded, and ends with this program.
func (s *Session) recordStart(id string, params []byte) (*slotRecord, error) {
	k := s.table.config.Kept
	if k == nil || params == nil {
		return nil, nil
	}
	slot, err := k.Arena.TakeSlot()
	if err != nil {
		return nil, fmt.Errorf("record a process: %w", err)
	}
	var e reexec.Encoder
	e.Text(s.Public)
	e.Number(slot.Serial.Load())
	e.Text(id)
	note, err := k.Arena.Journal().Append(noteStarted, e, params)
	if err != nil {
		slot.Free()
		return nil, fmt.Errorf("record a process: %w", err)
	}
	return &slotRecord{k, slot, note}, nil
}

// A recordedStart is what recordStart has recorded.
type recordedStart struct {
	note    *arena.Note
	session string // public id
	serial  uint64 // of its slot
	id      string
	params  []byte
	done    []recordedAction
}

func decodeStarted(n *arena.Note, b []byte) (*recordedStart, error) {
	d := reexec.Decode(b)
	r := &recordedStart{note: n, session: d.Text(), serial: d.Number(), id: d.Text()}
	r.params = append(r.params, d.Rest()...)
	return r, wellFormed(d, "start")
}

func (r *slotRecord) slotOrNil() *arena.Slot {
	if r == nil {
		return nil
	}
	return r.slot
}

// configure lets a log record its entries in the slot.
func (r *slotRecord) configure(c *outlog.Config) {
	if r == nil {
		return
	}
	c.Slot = r.slot
	c.HoldSpool = func(f *os.File) error {
		return r.kept.Keeper.Hold(proc.LogHolder(r.slot), proc.Held{Which: heldSpool, FD: int(f.Fd())})
	}
}

// drop drops the notes about a process whose slot is free, with those about its writes.
func (r *slotRecord) drop(w *writes) {
	if r != nil {
		r.kept.Arena.Journal().Drop(append(w.notes(), r.note)...)
	}
}

// forget drops the note about an action that is no longer remembered.
func (r *slotRecord) forget(n *arena.Note) {
	if r != nil {
		r.kept.Arena.Journal().Drop(n)
	}
}

// A recordedAction is a write, or another action with an id, that has taken effect.
type recordedAction struct {
	note    *arena.Note
	key     writeKey
	digest  [sha256.Size]byte
	ordinal uint64 // of a write
}

// recordDone records that an action takes effect. A write takes effect only if its ordinal is reached, see
// proc.Process.WriteNoted.
func (r *slotRecord) recordDone(key writeKey, digest [sha256.Size]byte, ordinal uint64) (*arena.Note, error) {
	if r == nil {
		return nil, nil
	}
	var e reexec.Encoder
	e.Number(r.slot.Serial.Load())
	e.Flag(key.action)
	e.Number(ordinal)
	e.Text(key.id)
	e.Text(string(digest[:]))
	return r.kept.Arena.Journal().Append(noteDone, e)
}

func decodeDone(n *arena.Note, b []byte) (serial uint64, a recordedAction, err error) {
	d := reexec.Decode(b)
	serial = d.Number()
	a.note, a.key.action, a.ordinal, a.key.id = n, d.Flag(), d.Number(), d.Text()
	if copy(a.digest[:], d.Text()) < sha256.Size {
		d.Fail()
	}
	return serial, a, wellFormed(d, "write")
}
