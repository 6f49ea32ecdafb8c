//go:build !unix

package server

import (
	"errors"
	"os"
)

func lockFile(path string) (*os.File, error) { return os.Create(path) }

// tryLockFile never succeeds: without locks nobody can tell whether the owner
// of a directory is gone.
func tryLockFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
