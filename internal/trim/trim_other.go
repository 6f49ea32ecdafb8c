//go:build !linux

package trim

// Pages are empty on this system.
type Pages struct{}

// Program returns no pages.
func Program() Pages { return Pages{} }

// Unmap does nothing.
func (Pages) Unmap() {}
