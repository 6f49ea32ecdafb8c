package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// On a full disk a file gets whole lines or none, and more of them when there is room again.
func TestFullDiskTearsNoLine(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		need.CannotRun(t, "a small disk cannot be mounted (are you root?): %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err) // the file was left open
		}
	}()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit")
	f, err := openFile(path, 1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 30))
	written, failed := 0, 0
	for range 20 {
		if _, err := f.Write(lines); err != nil {
			failed++
			continue
		}
		written++
	}
	if written == 0 || failed == 0 {
		t.Fatalf("%d writes, %d failures", written, failed)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(lines); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, bytes.Repeat(lines, written+1)) {
		t.Errorf("the file has %d bytes, %v; want %d", len(text), err, (written+1)*len(lines))
	}
}
