//go:build amd64 || arm64

package keep

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Orphaned reports whether the keeper has died, or is dying. The kernel's SIGTERM comes with the end of the keeper's main thread: then
// its other threads may still be there, and with them its number as the parent of this process.
func (w *Worker) Orphaned() bool {
	const exiting, flags = 0x4, 6 // PF_EXITING, and where the flags are behind the name
	if os.Getppid() != w.keeper {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.keeper))
	if err != nil {
		return os.Getppid() != w.keeper
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= flags {
		return false
	}
	bits, err := strconv.ParseUint(string(fields[flags]), 10, 64)
	return err == nil && bits&exiting != 0
}
