package statedir

import (
	"fmt"
	"os"
	"strings"
)

// overflowUID is the number that the kernel shows for users that are not mapped,
// unless its settings name another.
const overflowUID = 65534

// unmapped reports whether a number stands for users that this user namespace does not
// map, and not for one of its own.
func unmapped(uid uint32) bool {
	if uid != overflowUID {
		return false
	}
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		var first, outside, count uint64
		if _, err := fmt.Sscan(line, &first, &outside, &count); err != nil {
			return false
		}
		if id := uint64(uid); id >= first && id-first < count {
			return false
		}
	}
	return true
}
