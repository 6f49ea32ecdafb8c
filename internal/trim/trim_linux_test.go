package trim

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// After Unmap fewer pages of the program count as memory of the process, and the program still runs.
func TestUnmapProgram(t *testing.T) {
	before := fileMemory(t)
	Program().Unmap()
	if after := fileMemory(t); after >= before {
		t.Errorf("%d KiB of files are mapped after Unmap, %d before", after, before)
	}
}

// fileMemory returns how many KiB of files are mapped in this process.
func fileMemory(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"\nRssFile:", "\nRssShmem:"} { // the latter, if the program is on a file system in memory
		_, rest, _ := bytes.Cut(status, []byte(field))
		var n int
		if _, err := fmt.Sscan(string(rest), &n); err != nil {
			t.Fatalf("%s %v", field, err)
		}
		kib += n
	}
	return kib
}
