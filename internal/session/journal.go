package session

import (
	"crypto/sha256"
	"fmt"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
)

// Kept says where sessions are recorded, so that [Table.Restore] of another program finds them if
// this one dies.
type Kept struct {
	Arena   *arena.Arena
	Keeper  proc.Keeper
	Program string // version of this program

	// Probation is until when an earlier version, which this program has replaced, may have to read what is recorded.
	Probation time.Time
}

// The kinds of notes in the journal. Numbers up to lastKind belong to this package.
const (
	noteOpened  arena.NoteKind = 1 // a session was opened
	noteEnded   arena.NoteKind = 2 // a session has ended, and its processes have to
	noteStarted arena.NoteKind = 3 // a process is about to be started
	noteDone    arena.NoteKind = 4 // a write or another action with an id takes effect now

	// A session was set aside: programs of this version have died of it.
	noteAside = 5 | arena.Skippable

	notePolicy = 6 | arena.Skippable // the policy of the sandbox in which a process is about to be started
	noteUpload = 7 | arena.Skippable // the state of an upload; without one it has ended

	// The principal of a session. It comes before the note about a new session, so that no program finds the session without it.
	notePrincipal arena.NoteKind = 8

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
	if s.ReadOnly { // left out of the notes of all other sessions, which earlier versions can read
		e.Flag(true)
	}
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
	r.identity = Identity{ID: d.Text(), Public: d.Text(), Client: d.Text(), Label: d.Text(), CreatedAt: time.Unix(0, d.Signed()), Owner: Owner{unknown: true}}
	r.ttl, r.acks = time.Duration(d.Signed()), d.Flag()
	r.identity.ReadOnly = !d.Done() && d.Flag()
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
	k := s.table.config.Kept
	if k == nil {
		return nil
	}
	if s.ownerNote, err = k.recordPrincipal(s.Public, s.Principal); err != nil {
		return err
	}
	if s.note, err = k.Arena.Journal().Append(noteOpened, s.openedNote()); err != nil {
		k.Arena.Journal().Drop(s.ownerNote)
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

// recordAside records that a session is left as it is by programs of this version; "": what belongs to no session.
func (k *Kept) recordAside(public string) error {
	var e reexec.Encoder
	e.Text(public)
	e.Text(k.Program)
	_, err := k.Arena.Journal().Append(noteAside, e)
	return err
}

// A recordedAside is what recordAside has recorded.
type recordedAside struct {
	note            *arena.Note
	public, program string
}

func decodeAside(n *arena.Note, b []byte) (recordedAside, error) {
	d := reexec.Decode(b)
	a := recordedAside{n, d.Text(), d.Text()}
	return a, wellFormed(d, "session")
}

// unrecord drops what was recorded about the session, when nothing is left of it.
func (s *Session) unrecord() {
	if k := s.table.config.Kept; k != nil {
		s.table.mu.Lock()
		defer s.table.mu.Unlock()
		k.Arena.Journal().Drop(s.ownerNote, s.note, s.endNote)
	}
}

// A slotRecord is what is recorded about one process.
type slotRecord struct {
	kept *Kept
	slot *arena.Slot
	note *arena.Note

	policies []*arena.Note // one for each attempt to start the process
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
	return &slotRecord{kept: k, slot: slot, note: note}, nil
}

// recordPolicy records the policy of the sandbox.
func (r *slotRecord) recordPolicy(encoded []byte) error {
	var e reexec.Encoder
	e.Number(r.slot.Serial.Load())
	note, err := r.kept.Arena.Journal().Append(notePolicy, e, encoded)
	if err == nil {
		r.policies = append(r.policies, note)
	}
	return err
}

// forLauncher returns where the launcher records a process; nil: nowhere.
func (r *slotRecord) forLauncher() *launch.Record {
	if r == nil {
		return nil
	}
	return &launch.Record{Slot: r.slot, Policy: r.recordPolicy}
}

// A recordedStart is what recordStart has recorded.
type recordedStart struct {
	note    *arena.Note
	session string // public id
	serial  uint64 // of its slot
	id      string
	params  []byte
	done    []recordedAction
	writes  map[uint64]*arena.Note // the last note about a write with an ordinal
	policy  []byte                 // nil: none

	policies []*arena.Note
}

// notes returns everything that was recorded about the process.
func (r *recordedStart) notes() []*arena.Note {
	notes := append([]*arena.Note{r.note}, r.policies...)
	for _, a := range r.done {
		notes = append(notes, a.note)
	}
	return notes
}

func decodeStarted(n *arena.Note, b []byte) (*recordedStart, error) {
	d := reexec.Decode(b)
	r := &recordedStart{note: n, session: d.Text(), serial: d.Number(), id: d.Text()}
	r.params = append(r.params, d.Rest()...)
	return r, wellFormed(d, "start")
}

// addDone adds an action of the process.
func (r *recordedStart) addDone(a recordedAction) {
	r.done = append(r.done, a)
	if r.writes == nil {
		r.writes = map[uint64]*arena.Note{}
	}
	r.writes[a.ordinal] = a.note
}

// tookEffect reports whether an action has taken effect, if so many writes were accepted. If a program dies between
// recording a write and accepting it, the next accepted write has the same ordinal: only the last one counts.
func (r *recordedStart) tookEffect(a recordedAction, accepted uint64) bool {
	return a.ordinal == 0 || a.ordinal <= accepted && r.writes[a.ordinal] == a.note
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

// cancel records that the process ends as soon as it has started.
func (r *slotRecord) cancel() {
	if r != nil {
		proc.Cancel(r.slot)
	}
}

// drop drops the notes about a process whose slot is free, with those about its writes.
func (r *slotRecord) drop(w *writes) {
	if r != nil {
		r.kept.Arena.Journal().Drop(append(append(w.notes(), r.note), r.policies...)...)
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
