//go:build !linux

package fswatch

import (
	"errors"
	"sync"
)

func start([]string, string, func(), *sync.WaitGroup) (watch, error) {
	return nil, errors.ErrUnsupported
}
