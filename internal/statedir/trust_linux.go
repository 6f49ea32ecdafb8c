package statedir

import (
	"os"
	"strconv"
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
	return !mapped(string(text), uid)
}

// mapped reports whether a user is in one of the ranges of a uid_map, the kernel's table of a namespace. It is true as well for a table of
// unknown form.
func mapped(table string, uid uint32) bool {
	for line := range strings.Lines(table) {
		columns := strings.Fields(line) // the first user of a range, the same user outside, and how many there are
		if len(columns) != 3 {
			return true
		}
		first, err := strconv.ParseUint(columns[0], 10, 32)
		count, countErr := strconv.ParseUint(columns[2], 10, 32)
		if id := uint64(uid); err != nil || countErr != nil || id >= first && id-first < count {
			return true
		}
	}
	return false
}
