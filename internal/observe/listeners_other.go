//go:build !linux

package observe

import (
	"net/netip"
	"os"

	"github.com/tetherexec/tether/internal/proc"
)

// HasListeners reports whether this system shows which process listens.
const HasListeners = false

// Listeners finds nothing on this system.
func Listeners([]*proc.Process) (found map[*proc.Process][]Listener, partial bool) { return nil, true }

// Inside finds nothing on this system.
func Inside(*proc.Process, uint16) (network *os.File, at netip.AddrPort, err error) {
	return nil, at, ErrNotInside
}
