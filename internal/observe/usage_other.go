//go:build !linux

package observe

import "github.com/tetherexec/tether/internal/proc"

// measure returns nothing on this system.
func measure([]*proc.Process) map[*proc.Process]Usage { return nil }
