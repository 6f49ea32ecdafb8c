//go:build split && !mcp && !fleet

package main

// moduleVersion is empty, because scripts/build sets the version of a release.
func moduleVersion() string { return "" }
