//go:build split && !mcp

package main

// moduleVersion is empty, because scripts/build sets the version of a release.
func moduleVersion() string { return "" }
