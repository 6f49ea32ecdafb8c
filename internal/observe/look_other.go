//go:build !linux

package observe

import "time"

// A Target is what Look looks at.
type Target struct {
	Root   int
	Exited bool
}

// Look sees nothing on this system.
func Look(target Target) Evidence {
	return Evidence{At: time.Now(), Root: target.Root, Exited: target.Exited}
}
