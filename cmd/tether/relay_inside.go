//go:build fleet

package main

import (
	"os"
	"runtime/debug"
)

// relayGC is the percentage by which the heap of a hub or a gateway grows before it is collected. They keep nearly nothing of what they
// allocate for the messages that they pass on, so with the default of 100 they collect a small heap again and again: that was
// half of their processor time. The idle heap is some MiB, and does not grow with output.
const relayGC = 400

// prepareRelay makes this process fit to pass messages on, unless the user has set GOGC.
func prepareRelay() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(relayGC)
	}
}
