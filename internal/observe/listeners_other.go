//go:build !linux

package observe

import "github.com/tetherexec/tether/internal/proc"

// HasListeners reports whether this system shows which process listens.
const HasListeners = false

// Listeners finds nothing on this system.
func Listeners([]*proc.Process) (found map[*proc.Process][]Listener, partial bool) { return nil, true }
