package upload

import (
	"crypto/sha256"
	"errors"
	"math"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/wire"
)

// A Record is where an upload is recorded, so that [Table.Restore] of another program can go on with it.
type Record interface {
	// Hold lets copies of the descriptors of an upload survive this program, until Release.
	Hold(dir, file *os.File) error
	Release()
	// Put records a state in place of the one before.
	Put(state []byte) error
	// Drop removes what is recorded, and releases the descriptors.
	Drop()
}

// A phase is a state as it is recorded.
type phase uint64

// The numbers are the same in all versions.
const (
	recordedReceiving  phase = 1
	recordedCommitting phase = 2 // the file may be at its target
	recordedCommitted  phase = 3
)

var errRecord = errors.New("the record of an upload is damaged")

// keep records a new upload.
func (t *Table) keep(u *upload) error {
	if t.newRecord == nil {
		return nil
	}
	u.record = t.newRecord()
	err := u.record.Hold(u.temp.dir, u.temp.file)
	if err == nil {
		err = u.save(recordedReceiving, u.have)
	}
	if err != nil {
		u.unrecord()
	}
	return err
}

// save records the state of an upload.
func (u *upload) save(p phase, have spans) error {
	if u.record == nil {
		return nil
	}
	var e reexec.Encoder
	e.Number(uint64(p))
	e.Text(u.params.UploadID)
	e.Text(u.params.Path.String())
	e.Number(u.params.Size)
	e.Flag(u.params.Mode != nil)
	if u.params.Mode != nil {
		e.Number(uint64(*u.params.Mode))
	}
	e.Text(string(u.digest[:]))
	if u.temp != nil {
		e.Text(u.temp.name)
		e.Text(u.temp.target)
	} else {
		e.Text("")
		e.Text("")
	}
	e.Number(uint64(len(have)))
	for _, r := range have {
		e.Number(r.Start)
		e.Number(r.End)
	}
	return u.record.Put(e)
}

// unrecord drops the record of an upload that has ended. It is called before the temporary file is removed: a file that
// no record names is removed by Sweep.
func (u *upload) unrecord() {
	if u.record != nil {
		u.record.Drop()
		u.record = nil
	}
}

// A savedUpload is what save has recorded.
type savedUpload struct {
	phase        phase
	params       wire.UploadOpenParams
	digest       [sha256.Size]byte
	name, target string
	have         spans
}

func decodeSaved(state []byte) (s savedUpload, err error) {
	d := reexec.Decode(state)
	s.phase, s.params.UploadID = phase(d.Number()), d.Text()
	path := d.Text()
	s.params.Size = d.Number()
	if d.Flag() {
		mode := uint32(d.Number())
		s.params.Mode = &mode
	}
	digest := d.Text()
	s.name, s.target = d.Text(), d.Text()
	for range d.Count(2) {
		s.have = append(s.have, wire.UploadRange{Start: d.Number(), End: d.Number()})
	}
	if !d.Done() || copy(s.digest[:], digest) != sha256.Size || s.phase < recordedReceiving || s.phase > recordedCommitted {
		return s, errRecord
	}
	s.params.Path, err = wire.ParsePathURI(path)
	return s, err
}

// Spare keeps Sweep from removing the temporary file of an upload that is recorded with this state.
func (j *Journal) Spare(state []byte) {
	if s, err := decodeSaved(state); err == nil && s.name != "" {
		j.claim(s.name)
	}
}

// Committed reports whether the upload of a recorded state is complete: then it needs no descriptors.
func Committed(state []byte) bool {
	s, err := decodeSaved(state)
	return err == nil && s.phase == recordedCommitted
}

// Restore adds an upload that another program has recorded. dir and file are the descriptors that it has held; they are nil
// if it had released them, and belong to the upload. Its idle time begins again.
func (t *Table) Restore(state []byte, dir, file *os.File, r Record) error {
	s, err := decodeSaved(state)
	if err == nil && s.phase == recordedReceiving && (dir == nil || file == nil) {
		err = errors.New("the keeper has no descriptors of an upload")
	}
	if err != nil {
		closeFiles(dir, file)
		return err
	}
	u := newUpload(s.params)
	u.have, u.record, u.state = s.have, r, committed
	if s.phase != recordedCommitted && dir != nil && file != nil {
		u.state, u.temp = receiving, reopenTemporary(dir, file, s.name, s.target, t.journal)
	} else {
		closeFiles(dir, file)
	}
	if s.phase == recordedCommitting && u.temp != nil {
		if u.temp.isTarget() {
			u.temp.moved()
			u.state, u.temp = committed, nil
		} else if err := u.temp.hide(); err != nil {
			u.unrecord()
			return errors.Join(err, u.temp.remove())
		}
	}
	u.timer = time.AfterFunc(math.MaxInt64, func() { t.expire(u) })
	u.timer.Stop()
	t.mu.Lock()
	t.uploads[u.params.UploadID] = u
	t.open++
	t.mu.Unlock()
	if u.state == committed {
		u.digest = s.digest
		u.settle()
		t.remember(u)
	}
	t.release(u)
	return nil
}

// settle records that the upload is committed. If that fails, the missing descriptors say the same.
func (u *upload) settle() {
	if u.record != nil {
		_ = u.save(recordedCommitted, u.have)
		u.record.Release()
	}
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
