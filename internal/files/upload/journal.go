package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Journal is a directory of one server with a file for each temporary file: the
// same name, and the directory of the temporary file as its content. It outlives a
// server that is killed. It is safe for concurrent use.
type Journal struct{ dir string }

// OpenJournal makes the directory of a journal, in a directory that only this user
// can write.
func OpenJournal(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create journal of uploads: %w", err)
	}
	return &Journal{dir}, nil
}

// add records a file before it is made.
func (j *Journal) add(dir, name string) error {
	if j == nil {
		return nil
	}
	return os.WriteFile(filepath.Join(j.dir, name), []byte(dir), 0o600)
}

// done removes the record of a file that is gone.
func (j *Journal) done(name string) error {
	if j == nil {
		return nil
	}
	return os.Remove(filepath.Join(j.dir, name))
}

// Sweep removes the temporary files of a server that is gone, by its journal,
// whose directory need not exist. A file that was moved is not searched for. Files
// that could not be removed stay in the journal.
func Sweep(journal string) error {
	entries, err := os.ReadDir(journal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read journal of uploads: %w", err)
	}
	j := &Journal{journal}
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasPrefix(name, tempPrefix) {
			continue
		}
		dir, err := os.ReadFile(filepath.Join(journal, name))
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
