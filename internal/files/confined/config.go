package confined

import (
	"errors"
	"log/slog"
	"time"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// idleLimit is how long a helper waits for another request.
const idleLimit = 30 * time.Second

// ErrClosed means that the session has ended.
var ErrClosed = errors.New("no more file requests: the session has ended")

// Config configures a Pool.
type Config struct {
	Confiner *confine.Confiner // nil: requests that need a sandbox are refused
	Procs    *proc.Supervisor

	IdleLimit time.Duration // 0: 30 s
	Log       *slog.Logger  // nil: no log
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.IdleLimit == 0 {
		c.IdleLimit = idleLimit
	}
	return c
}

// unconfined reports whether an intent does not confine files.
func unconfined(intent *wire.Sandbox) bool {
	if intent == nil || intent.Draft == wire.DraftDisabled {
		return true
	}
	switch intent.Permissions.Type {
	case wire.PermissionsDisabled, wire.PermissionsExternal:
		return true
	}
	return intent.Permissions.FileSystem.Type == wire.FileSystemUnrestricted
}

// readsAll reports whether an intent lets everything be read, independent of
// what its paths mean here. In doubt it returns false.
func readsAll(intent *wire.Sandbox) bool {
	if intent.Draft != "" || intent.Permissions.Type != wire.PermissionsManaged || intent.Permissions.FileSystem.Type != wire.FileSystemRestricted {
		return false
	}
	root := false
	for _, e := range intent.Permissions.FileSystem.Entries {
		switch {
		case e.Access != wire.AccessRead && e.Access != wire.AccessWrite:
			return false
		case e.Path.Type == wire.SandboxPathSpecial:
			root = root || e.Path.Special.Kind == wire.SpecialRoot
		case e.Path.Type != wire.SandboxPathURI:
			return false
		}
	}
	return root
}
