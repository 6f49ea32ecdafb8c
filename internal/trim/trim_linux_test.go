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
	_, rest, _ := bytes.Cut(status, []byte("\nRssFile:"))
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		t.Fatalf("RssFile: %v", err)
	}
	return kib
}
