package session

import (
	"context"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// Context ends with the session.
func (s *Session) Context() context.Context { return s.ctx }

// Files returns who serves file requests that are to be confined like this.
func (s *Session) Files(ctx context.Context, sandbox *wire.Sandbox) (files.Files, error) {
	return s.files.Files(ctx, sandbox)
}
