//go:build !linux

package watch

import (
	"errors"
	"sync"
)

func start([]string, string, func(), *sync.WaitGroup) (watch, error) {
	return nil, errors.ErrUnsupported
}
