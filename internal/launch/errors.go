package launch

import "errors"

// Conditions that callers distinguish. ErrSandbox is for a server without a Confiner; if
// a Confiner cannot enforce a sandbox, the error is a sandbox.UnenforceableError.
var (
	ErrEmptyArgv  = errors.New("argv must not be empty")
	ErrSandbox    = errors.New("sandbox intent cannot be enforced on this executor")
	ErrInvalidCwd = errors.New("is not valid on this exec-server host")

	ErrNetworkProxy    = errors.New("invalid network proxy config")
	ErrDecisionTimeout = errors.New("network policy decision callback timeout must be nonzero")
	ErrCallbackID      = errors.New("callback-enabled process ID must be non-empty and at most 256 bytes")

	// ErrNoClient is returned by Owner.Ask when no client is attached.
	ErrNoClient = errors.New("no client is attached")
)
