package copy

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/statedir"
)

const (
	// journalAge is how long the journal of an interrupted copy is kept.
	journalAge = 30 * 24 * time.Hour

	// worthResuming is the size from which on a part of a file is kept.
	worthResuming = 4 << 20
)

// A Journal records the progress of a copy, so that the same command can continue after an
// interruption. There is one for each server and destination. It has the secret of a session,
// so only this user can read it. A nil journal records nothing.
type Journal struct {
	path string

	mu      sync.Mutex
	file    *os.File
	session string
	records map[string]fileState
}

// A fileState is the progress of one file.
type fileState struct {
	Key     string `json:"key,omitempty"` // source and target
	Session string `json:"session,omitempty"`

	Size     int64  `json:"size"` // of the source, as it was
	Modified int64  `json:"modified"`
	Done     bool   `json:"done,omitempty"`
	Upload   string `json:"upload,omitempty"` // its id
	Got      int64  `json:"got,omitempty"`    // bytes of the part that a download has written
	SHA256   string `json:"sha256,omitempty"` // of these
}

// sameSource reports whether the source has the size and the time that it had.
func (r fileState) sameSource(size int64, modified time.Time) bool {
	return r.Key != "" && r.Size == size && r.Modified == modified.UnixNano()
}

// OpenJournal opens the journal of a destination. It returns nil if another copy to that
// destination is running, or if the state directory cannot be used: then a copy begins from the start.
func OpenJournal(address, destination string) *Journal {
	state, err := statedir.Default()
	if err != nil {
		return nil
	}
	dir, err := statedir.Trusted(filepath.Join(state, "copies"))
	if err != nil {
		return nil
	}
	sweepJournals(dir)
	j := &Journal{path: filepath.Join(dir, recordKey(address, destination)+".jsonl"), records: map[string]fileState{}}
	if j.file, err = os.OpenFile(j.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil
	}
	if filelock.Try(int(j.file.Fd()), filelock.Exclusive) != nil {
		j.file.Close()
		return nil
	}
	lines := bufio.NewScanner(j.file)
	for lines.Scan() {
		var r fileState
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // the last line of a copy that was killed
		}
		if r.Session != "" {
			j.session = r.Session
		}
		j.records[r.Key] = r
	}
	return j
}

// sweepJournals removes old journals.
func sweepJournals(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".jsonl") && time.Since(info.ModTime()) > journalAge {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

func recordKey(from, to string) string {
	sum := sha256.Sum256([]byte(from + "\x00" + to))
	return hex.EncodeToString(sum[:16])
}

// find returns the progress of a file.
func (j *Journal) find(from, to string) fileState {
	if j == nil {
		return fileState{}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.records[recordKey(from, to)]
}

// put records the progress of a file. It ignores errors, because the journal matters only if the
// copy is interrupted.
func (j *Journal) put(from, to string, r fileState) {
	if j == nil {
		return
	}
	r.Key = recordKey(from, to)
	j.write(r)
}

func (j *Journal) write(r fileState) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // the type has nothing that could fail
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records[r.Key] = r
	if j.file != nil {
		j.file.Write(append(line, '\n'))
	}
}

// Session returns the secret of the session that has the uploads of an earlier copy, or "".
func (j *Journal) Session() string {
	if j == nil {
		return ""
	}
	return j.session
}

// setSession records the session that has the uploads.
func (j *Journal) setSession(secret string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	known := j.session == secret
	j.session = secret
	j.mu.Unlock()
	if !known {
		j.write(fileState{Session: secret})
	}
}

// HasProgress reports whether the journal has progress of this copy or an earlier one, so that a
// later one can continue.
func (j *Journal) HasProgress() bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.records) > 0
}

// Close ends the use of the journal. Without keep it also removes the file: the copy is finished, or
// no progress is recorded.
func (j *Journal) Close(keep bool) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !keep {
		os.Remove(j.path)
	}
	j.file.Close()
	j.file = nil
}

// partName is the file to which a download is written until it is complete. Names have at most
// 255 bytes.
func partName(from, to string) string {
	name := filepath.Base(to)
	return filepath.Join(filepath.Dir(to), "."+name[:min(len(name), 200)]+"."+recordKey(from, to)[:8]+".part")
}

// dropPart removes a partial file that no later run will continue.
func dropPart(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func newUploadID() string { return "cp-" + rand.Text() }
