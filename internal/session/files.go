package session

import (
	"context"

	"github.com/tetherexec/tether/internal/fsrpc"
	"github.com/tetherexec/tether/wire"
)

// Context ends with the session.
func (s *Session) Context() context.Context { return s.ctx }

// Files returns who serves file requests that are to be confined like this.
func (s *Session) Files(_ context.Context, sandbox *wire.Sandbox) (fsrpc.Files, error) {
	if sandbox == nil || sandbox.Disabled() {
		return fsrpc.Direct{}, nil
	}
	return nil, &fsrpc.Error{Err: fsrpc.ErrSandbox}
}
