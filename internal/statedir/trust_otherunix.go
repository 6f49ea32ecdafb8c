//go:build unix && !linux

package statedir

// unmapped is false: there are no user namespaces here.
func unmapped(uint32) bool { return false }
