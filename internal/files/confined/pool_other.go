//go:build !linux

package confined

import (
	"context"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// A Pool serves the file requests of one session. Here there is no sandbox yet:
// requests that need one are refused.
type Pool struct{ config Config }

// New makes a pool.
func New(cfg Config) *Pool { return &Pool{cfg.withDefaults()} }

// Files returns the Files for a request with this sandbox; nil means no
// sandbox.
func (p *Pool) Files(_ context.Context, intent *wire.Sandbox) (files.Files, error) {
	if unconfined(intent) {
		return files.Direct{}, nil
	}
	return nil, &files.Error{Err: files.ErrSandbox}
}

// Close does nothing.
func (p *Pool) Close() {}
