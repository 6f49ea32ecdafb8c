//go:build amd64 || arm64

package worker

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/server"
)

var pointTest = crash.NewPoint("worker.test")

// durableState makes the state of a durable server with some processes and an upload.
func durableState(t *testing.T, cfg server.Config, listener *os.File) (memory string) {
	t.Helper()
	s, err := NewState(cfg, listener)
	if err != nil {
		t.Fatal(err)
	}
	memory = s.dir.Memory()
	t.Cleanup(func() { os.Remove(memory) })
	for i := range uint64(3) {
		slot, err := s.arena.TakeSlot()
		if err != nil {
			t.Fatal(err)
		}
		slot.Pid.Store(uint32(1<<22+i), pointTest)
		slot.State.Store(2+i, pointTest) // starting, running, released
		var e reexec.Encoder
		e.Text("session")
		e.Number(slot.Serial.Load())
		e.Text("process")
		if _, err := s.arena.Journal().Append(3, e, []byte("{}")); err != nil { // see package session
			t.Fatal(err)
		}
	}
	var e reexec.Encoder
	e.Text("session")
	e.Number(1)
	if _, err := s.arena.Journal().Append(7|arena.Skippable, e, []byte("upload")); err != nil {
		t.Fatal(err)
	}
	s.abandon(t)
	return memory
}

// abandon closes what a killed server would have open.
func (s *State) abandon(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.dir.Lock().Close(), s.arena.Close(), s.Notice.Close()); err != nil {
		t.Error(err)
	}
}

// FuzzTakeOver damages the memory of a durable server that was killed. The next one takes it over, begins anew, or refuses what a newer
// version has written.
func FuzzTakeOver(f *testing.F) {
	f.Add(uint32(0), uint64(0), uint32(0), uint64(0), int64(0))
	f.Add(uint32(8), uint64(7), uint32(0), uint64(0), int64(0))
	f.Add(uint32(4096), uint64(1<<63), uint32(4096+512), uint64(5), int64(0))
	f.Add(uint32(33558528+64), uint64(1<<40), uint32(33558528+80), uint64(1), int64(0)) // the journal
	f.Add(uint32(0), uint64(0), uint32(0), uint64(0), int64(1000))
	f.Fuzz(func(t *testing.T, at1 uint32, v1 uint64, at2 uint32, v2 uint64, cut int64) {
		listener, err := os.Open(os.DevNull) // only passed on
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		cfg := server.Config{StateDir: t.TempDir(), Durable: true}
		memory := durableState(t, cfg, listener)
		file, err := os.OpenFile(memory, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock(file); err != nil { // other tests look for memory that can be removed
			t.Fatal(err)
		}
		var word [8]byte
		for at, v := range map[uint32]uint64{at1: v1, at2: v2} {
			offset := int64(at) &^ 7
			if _, err := file.ReadAt(word[:], offset); err != nil {
				t.Fatal(err)
			}
			binary.LittleEndian.PutUint64(word[:], binary.LittleEndian.Uint64(word[:])^v)
			if _, err := file.WriteAt(word[:], offset); err != nil {
				t.Fatal(err)
			}
		}
		if cut > 0 {
			if err := file.Truncate(cut); err != nil {
				t.Fatal(err)
			}
		}
		file.Close()
		s, err := NewState(cfg, listener)
		if err != nil {
			if !errors.Is(err, arena.ErrNewer) {
				t.Fatal(err)
			}
			return
		}
		for _, slot := range s.arena.Slots() {
			if proc.Starting(slot) && slot.Pid.Load() != 0 && slot.Failure.Load() == 0 {
				t.Errorf("slot %d is not buried", slot.Index())
			}
		}
		if s.taken {
			s.abandon(t)
			if s, err = NewState(cfg, listener); err != nil { // once more
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
