package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Journal is a directory that belongs to one server and has a file for each
// temporary one: under its name, with the directory that it lies in. It outlives a
// server that is killed. It may be used by several goroutines.
type Journal struct{ dir string }

// OpenJournal makes the directory of a journal, in a place that only this user can
// write.
func OpenJournal(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create journal of uploads: %w", err)
	}
	return &Journal{dir}, nil
}

// add notes a file before it is made.
func (j *Journal) add(dir, name string) error {
	if j == nil {
		return nil
	}
	return os.WriteFile(filepath.Join(j.dir, name), []byte(dir), 0o600)
}

// done crosses out a file that is gone.
func (j *Journal) done(name string) error {
	if j == nil {
		return nil
	}
	return os.Remove(filepath.Join(j.dir, name))
}

// Sweep removes the temporary files that a server has left which is gone, by its
// journal, whose directory need not exist. A file that is not where it was made is
// not looked for. What could not be removed stays in the journal.
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
			errs = append(errs, fmt.Errorf("remove what an upload has left: %w", err))
		}
	}
	return errors.Join(errs...)
}
