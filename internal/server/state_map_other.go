//go:build unix && !linux

package server

// unmapped is false: there are no user namespaces here.
func unmapped(uint32) bool { return false }
