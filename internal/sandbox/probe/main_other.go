//go:build !linux

package probe

import (
	"fmt"
	"os"
)

// Main has nothing to try here: there are no sandboxes on this system yet.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "tether: probes are not supported on this system")
	return 2
}

// Names is empty here.
func Names() []string { return nil }
