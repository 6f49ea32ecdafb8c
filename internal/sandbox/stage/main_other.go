//go:build !linux

package stage

import (
	"fmt"
	"os"
)

// Main has nothing to do here: there are no sandboxes on this system yet.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "tether: there are no sandboxes on this system yet")
	return 125
}
