package shellsnap

import (
	"errors"
	"fmt"

	"github.com/tetherexec/tether/wire"
)

// maxScope is the longest name of a scope, in bytes.
const maxScope = 256

// Errors of invalid requests. The texts are part of the protocol.
var (
	ErrScope = errors.New("shell snapshot scope must be non-empty and at most 256 bytes")
	ErrShell = errors.New("shell snapshots are unsupported for shell")
)

// A Kind is a family of shells.
type Kind string

// The kinds. A shell that is called sh can be captured only if it is bash under
// that name: other shells cannot list their functions.
const (
	Bash Kind = "bash"
	Zsh  Kind = "zsh"
	Sh   Kind = "sh"
)

// A Want is a command that can start from a snapshot.
type Want struct {
	Scope string
	Kind  Kind
	Path  string // of the shell
}

// Wanted checks a request. It returns nil for a command that is not a login shell
// of this path, because it has no use for a snapshot.
func Wanted(r *wire.ShellSnapshotRequest, argv []string) (*Want, error) {
	if r == nil {
		return nil, nil
	}
	if r.ScopeID == "" || len(r.ScopeID) > maxScope {
		return nil, ErrScope
	}
	if len(argv) < 3 || argv[0] != r.Shell.Path || argv[1] != "-lc" {
		return nil, nil
	}
	switch kind := Kind(r.Shell.Name); kind {
	case Bash, Zsh, Sh:
		return &Want{Scope: r.ScopeID, Kind: kind, Path: r.Shell.Path}, nil
	}
	return nil, fmt.Errorf("%w `%s`", ErrShell, r.Shell.Name)
}
