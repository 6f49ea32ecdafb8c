//go:build mcp || fleet || !split

package main

import "runtime/debug"

// moduleVersion is the version that `go install` has built; empty in a build from a clone.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return ""
}
