package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/wire"
)

// A testRecord is what outlives the program of an upload.
type testRecord struct {
	states    [][]byte // all that were put
	dir, file *os.File // copies; nil: not held
	dropped   bool
}

func (r *testRecord) Hold(dir, file *os.File) error {
	r.dir, r.file = copyOf(dir), copyOf(file)
	return nil
}

func copyOf(f *os.File) *os.File {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}

func (r *testRecord) Release() {
	closeFiles(r.dir, r.file)
	r.dir, r.file = nil, nil
}
func (r *testRecord) Put(state []byte) error { r.states = append(r.states, state); return nil }
func (r *testRecord) Drop()                  { r.Release(); r.dropped = true }

// take gives the descriptors to the next program.
func (r *testRecord) take() (dir, file *os.File) {
	dir, file = r.dir, r.file
	r.dir, r.file = nil, nil
	return dir, file
}

// A program that takes an upload over in any of its states goes on with it.
func TestRestore(t *testing.T) {
	data := []byte("0123456789")
	sum := sha256.Sum256(data)
	commit := wire.UploadCommitParams{UploadID: "u", SHA256: hex.EncodeToString(sum[:])}
	ctx := context.Background()
	for name, row := range map[string]struct {
		state     int  // how many states are recorded before the program dies
		held      bool // the descriptors are still held then
		moved     bool // the file is at its target
		mode      bool // newMode was interrupted
		committed bool
		received  int
	}{
		"opened":       {state: 1, held: true},
		"a block":      {state: 2, held: true, received: 4},
		"all blocks":   {state: 3, held: true, received: 10},
		"not moved":    {state: 4, held: true, mode: true, received: 10},
		"moved":        {state: 4, held: true, moved: true, committed: true, received: 10},
		"released":     {state: 4, moved: true, committed: true, received: 10},
		"committed":    {state: 5, moved: true, committed: true, received: 10},
		"not released": {state: 5, held: true, moved: true, committed: true, received: 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			record := &testRecord{}
			s.table.newRecord = func() Record { return record }
			s.open("u", "f", len(data))
			dir, file := record.take() // as the keeper has them
			u := s.table.uploads["u"]
			hidden := u.temp.name
			s.write("u", 0, data[:4])
			s.write("u", 4, data[4:])
			if row.moved {
				if _, err := s.table.Commit(ctx, commit); err != nil {
					t.Fatal(err)
				}
			} else if err := u.save(recordedCommitting, u.have); err != nil {
				t.Fatal(err)
			}
			if row.mode {
				s.put(hidden+modeSuffix, "", 0o600)
				if err := u.temp.file.Chmod(0o644); err != nil {
					t.Fatal(err)
				}
			}
			state := record.states[row.state-1]
			record.states = nil
			if !row.held {
				closeFiles(dir, file)
				dir, file = nil, nil
			}

			// The first program is dead: its table is not used any more, and has nothing to remove.
			delete(s.table.uploads, "u")
			if u.timer.Stop() {
				s.table.timers.Done()
			}
			if u.temp != nil {
				closeFiles(u.temp.dir, u.temp.file)
			}
			journal, err := OpenJournal(s.journal)
			if err != nil {
				t.Fatal(err)
			}
			next := New(Config{Journal: journal})
			defer next.Close()
			if err := next.Restore(state, dir, file, record); err != nil {
				t.Fatal(err)
			}
			if err := journal.Sweep(); err != nil {
				t.Fatal(err)
			}
			status, err := next.Status(ctx, wire.UploadParams{UploadID: "u"})
			if err != nil || int(status.Received) != row.received || status.Committed != row.committed {
				t.Fatalf("%+v, %v", status, err)
			}
			if !row.committed {
				if info, err := os.Stat(s.path(hidden)); err != nil || info.Mode() != 0o600 {
					t.Errorf("the hidden file: %v, %v", info, err)
				}
			}
			if again, err := next.Open(ctx, Direct, s.params("u", "f", len(data))); err != nil || again.Committed != row.committed {
				t.Errorf("opened again: %+v, %v", again, err)
			}
			for i := row.received; i < len(data); i++ {
				if _, err := next.Write(ctx, wire.UploadWriteParams{UploadID: "u", Offset: uint64(i), Chunk: data[i : i+1]}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := next.Commit(ctx, commit); err != nil {
				t.Fatal(err)
			}
			s.holds("f", data)
			if record.dir != nil || record.file != nil {
				t.Error("descriptors of a committed upload are held")
			}
			if left, err := os.ReadDir(s.dir); err != nil || len(left) != 1 {
				t.Errorf("in the directory: %v, %v", left, err)
			}
			if err := next.Close(); err != nil || !record.dropped {
				t.Errorf("%v, dropped: %v", err, record.dropped)
			}
		})
	}
}

// An upload without its descriptors, or with a damaged record, is not taken over.
func TestRestoreWithoutDescriptors(t *testing.T) {
	s := newSite(t)
	record := &testRecord{}
	s.table.newRecord = func() Record { return record }
	s.open("u", "f", 10)
	s.write("u", 0, []byte("0123"))
	defer record.Release()
	next := New(Config{})
	defer next.Close()
	if err := next.Restore(record.states[1], nil, nil, record); err == nil {
		t.Error("an upload was taken over without descriptors")
	}
	for n := range record.states[1] {
		if err := next.Restore(record.states[1][:n], nil, nil, record); !errors.Is(err, errRecord) {
			t.Errorf("%d bytes of a record: %v", n, err)
		}
	}
	if list, err := filepath.Glob(s.path(tempPrefix + "*")); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}
