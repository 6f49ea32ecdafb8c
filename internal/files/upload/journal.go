package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A Journal is a directory of one server with a file for each temporary file: the
// same name, and the directory of the temporary file as its content. It outlives a
// server that is killed. It is safe for concurrent use.
type Journal struct {
	dir string

	mu   sync.Mutex
	mine map[string]bool // files that this program uses
}

// OpenJournal makes the directory of a journal, in a directory that only this user
// can write.
func OpenJournal(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create journal of uploads: %w", err)
	}
	return &Journal{dir: dir}, nil
}

// add records a file before it is made.
func (j *Journal) add(dir, name string) error {
	if j == nil {
		return nil
	}
	err := os.WriteFile(filepath.Join(j.dir, name), []byte(dir), 0o600)
	if err == nil {
		j.claim(name)
	}
	return err
}

// claim notes that this program uses a file.
func (j *Journal) claim(name string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mine == nil {
		j.mine = map[string]bool{}
	}
	j.mine[name] = true
}

// done removes the record of a file that is gone.
func (j *Journal) done(name string) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	delete(j.mine, name)
	j.mu.Unlock()
	return os.Remove(filepath.Join(j.dir, name))
}

// Sweep removes the temporary files of a server that is gone, by its journal,
// whose directory need not exist. A file that was moved is not searched for. Files
// that could not be removed stay in the journal.
func Sweep(journal string) error { return (&Journal{dir: journal}).Sweep() }

// Sweep removes the temporary files in the journal that this program does not use.
func (j *Journal) Sweep() error {
	entries, err := os.ReadDir(j.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read journal of uploads: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		j.mu.Lock()
		mine := j.mine[name]
		j.mu.Unlock()
		if mine || !strings.HasPrefix(name, tempPrefix) {
			continue
		}
		dir, err := os.ReadFile(filepath.Join(j.dir, name))
		if err == nil {
			err = removeLeft(string(dir), name)
		}
		if err == nil {
			err = j.done(name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove the temporary file of an upload: %w", err))
		}
	}
	return errors.Join(errs...)
}
