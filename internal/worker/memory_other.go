//go:build !linux

package worker

import (
	"errors"
	"os"
)

// memoryFile fails: this system has no keeper.
func memoryFile([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }
