package session

import (
	"cmp"
	"os"
	"slices"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
)

// heldUploads is the first of the keeper's names for descriptors of uploads, in slot 0. An upload has two: for its
// directory and for its file.
const (
	heldUploads proc.Which = 1 << 20
	maxUploads             = 1 << 28 // numbers, which begin again then
)

// An uploadRecord is where an upload is recorded. It implements upload.Record.
type uploadRecord struct {
	kept    *Kept
	session string // public id
	number  uint64
	note    *arena.Note // the newest one; nil: none
}

// uploadRecorder returns where the uploads of a session are recorded; nil: nowhere.
func (t *Table) uploadRecorder(public string) func() upload.Record {
	if t.config.Kept == nil {
		return nil
	}
	return func() upload.Record {
		return &uploadRecord{kept: t.config.Kept, session: public, number: t.uploads.Add(1)}
	}
}

func (r *uploadRecord) which() proc.Which { return heldUploads + 2*proc.Which(r.number%maxUploads) }

// Hold implements upload.Record.
func (r *uploadRecord) Hold(dir, file *os.File) error {
	return r.kept.Keeper.Hold(0, proc.Held{Which: r.which(), FD: int(dir.Fd())}, proc.Held{Which: r.which() + 1, FD: int(file.Fd())})
}

// Release implements upload.Record.
func (r *uploadRecord) Release() {
	r.kept.Keeper.Drop(0, r.which())
	r.kept.Keeper.Drop(0, r.which()+1)
}

// Put implements upload.Record.
func (r *uploadRecord) Put(state []byte) error {
	var e reexec.Encoder
	e.Text(r.session)
	e.Number(r.number)
	note, err := r.kept.Arena.Journal().Append(noteUpload, e, state)
	if err != nil {
		return err
	}
	if r.note != nil {
		r.kept.Arena.Journal().Drop(r.note)
	}
	r.note = note
	return nil
}

// Drop implements upload.Record. An empty state says that the upload has ended: notes that were dropped can be found again.
func (r *uploadRecord) Drop() {
	before := r.note
	if err := r.Put(nil); err == nil || before != nil {
		r.kept.Arena.Journal().Drop(r.note)
	}
	r.Release()
}

// A recordedUpload is the newest state of an upload.
type recordedUpload struct {
	uploadRecord
	state     []byte
	dir, file *os.File // nil: not held
}

// visitUpload collects a note about an upload.
func (r *restoring) visitUpload(n *arena.Note, payload []byte) error {
	d := reexec.Decode(payload)
	u := &recordedUpload{uploadRecord: uploadRecord{kept: r.table.config.Kept, session: d.Text(), number: d.Number(), note: n}}
	u.state = append(u.state, d.Rest()...)
	if err := wellFormed(d, "upload"); err != nil {
		return err
	}
	if before := r.uploads[u.number]; before != nil {
		r.dead = append(r.dead, before.note)
	}
	r.uploads[u.number] = u
	return nil
}

// addUploads finds the uploads of each session.
func (r *restoring) addUploads() {
	shared := r.held.take(0)
	list := make([]*recordedUpload, 0, len(r.uploads))
	for _, u := range r.uploads {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *recordedUpload) int { return cmp.Compare(a.number, b.number) })
	for _, u := range list {
		r.table.uploads.Store(u.number)
		s, which := r.sessions[u.session], u.which()
		if len(u.state) == 0 || s == nil && !r.aside[u.session] {
			r.dead = append(r.dead, u.note)
			continue
		}
		u.dir, u.file = shared[which], shared[which+1]
		delete(shared, which)
		delete(shared, which+1)
		r.table.config.Uploads.Spare(u.state)
		if s == nil { // the keeper goes on holding what belongs to it
			u.dir.Close() // of nil, it does nothing
			u.file.Close()
			continue
		}
		r.uploadsOf[s] = append(r.uploadsOf[s], u)
	}
	for which, f := range shared {
		f.Close()
		if which >= heldUploads {
			r.table.config.Kept.Keeper.Drop(0, which)
		}
	}
}

// restoreUploads brings back the uploads of a session.
func (r *restoring) restoreUploads(s *Session) {
	for _, u := range r.uploadsOf[s] {
		if err := s.Uploads.Restore(u.state, u.dir, u.file, &u.uploadRecord); err != nil {
			s.log.Warn("an upload is lost: it cannot be taken over", "err", err)
			u.Drop()
		}
	}
}
