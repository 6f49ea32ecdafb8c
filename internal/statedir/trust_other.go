//go:build !unix

package statedir

import (
	"errors"
	"os"
	"path/filepath"
)

// Trusted makes a directory if it is missing and returns its name without links. There
// is no owner and mode to look at: the access list of the user's profile protects it.
func Trusted(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(name)
}

func ownDir(string) bool { return true }

func lockFile(path string) (*os.File, error) { return os.Create(path) }

// tryLockFile never succeeds: without locks nobody can tell whether the owner
// of a directory is gone.
func tryLockFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
