package confine

import (
	"context"
	"errors"
	"log/slog"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/bwrap"
)

// A Backend builds sandboxes.
type Backend string

// The backends. Automatic takes the first that works on this machine.
const (
	BackendAuto       Backend = "auto"
	BackendNative     Backend = "native"
	BackendBubblewrap Backend = "bwrap"
)

// Backends are the backends that can be chosen.
var Backends = []Backend{BackendAuto, BackendNative, BackendBubblewrap}

// Support says what this machine can enforce, and how.
type Support struct {
	Native     bool       // tether itself builds the sandboxes; else bubblewrap does
	Bubblewrap bwrap.Tool // the zero Tool: not found, or not searched for

	Mounts proc.Mounts
	Seals  bool // the stage can change mounts before it gives up that right
	NoUser bool // without a user namespace
	NoProc bool // a new procfs cannot be mounted: the outer one is visible, read-only

	// Problem is the reason why commands cannot be confined; nil: they can.
	// Advice is how to solve it.
	Problem error
	Advice  string
}

// refusal returns the error for a command that cannot be confined: the problem and
// the advice.
func (v Support) refusal() error {
	if v.Problem == nil {
		return nil
	}
	text := v.Problem.Error()
	if e, ok := errors.AsType[*sandbox.UnenforceableError](v.Problem); ok {
		text = e.Reason
	}
	if v.Advice != "" {
		text += ". " + v.Advice
	}
	return sandbox.Unenforceable("%s", text)
}

func (v Support) log(log *slog.Logger) {
	if errors.Is(v.Problem, context.Canceled) { // the server ended before it was known
		return
	}
	if v.Problem != nil {
		log.Warn("commands that ask for a sandbox will be refused", "err", v.Problem, "advice", v.Advice)
		return
	}
	if v.Native {
		log.Info("sandbox ready", "backend", BackendNative, "userNamespace", !v.NoUser, "ownProc", !v.NoProc)
		return
	}
	log.Info("sandbox ready", "backend", BackendBubblewrap, "bubblewrap", v.Bubblewrap.Path, "version", v.Bubblewrap.Version, "userNamespace", !v.NoUser, "ownProc", !v.NoProc)
}
