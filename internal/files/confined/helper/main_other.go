//go:build !linux

package helper

import (
	"fmt"
	"os"
)

// Main says that there are no sandboxes here.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "tether: there is no sandbox for this system yet")
	return 125
}
