package tethertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// OpenFiles returns what the file descriptors of this process refer to.
func OpenFiles() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var targets []string
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil {
			targets = append(targets, target)
		}
	}
	return targets
}

// Children returns the processes whose parent is this one, as "PID COMMAND",
// those included that nobody has reaped.
func Children() []string {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	self := strconv.Itoa(os.Getpid())
	var children []string
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		open, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		if open < 0 || end < open {
			continue
		}
		if fields := strings.Fields(string(text[end+1:])); len(fields) > 1 && fields[1] == self {
			children = append(children, string(text[:open])+string(text[open+1:end]))
		}
	}
	return children
}

// NothingLeft takes note of the open files and the children of this process, and
// returns a function that fails the test unless as many are there again, soon.
func NothingLeft(t testing.TB) (check func()) {
	t.Helper()
	time.AfterFunc(time.Hour, func() {}).Stop() // opens what the runtime opens for its first timer
	files, children := len(OpenFiles()), len(Children())
	return func() {
		t.Helper()
		Eventually(t, func() error {
			if now := OpenFiles(); len(now) > files {
				return fmt.Errorf("%d open files, %d before: %v", len(now), files, now)
			}
			if now := Children(); len(now) > children {
				return fmt.Errorf("children left: %v", now)
			}
			return nil
		})
	}
}

// Eventually waits until check succeeds, and fails the test with its last error
// if that takes too long.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	const step = 5 * time.Millisecond
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", patience, err)
		}
		time.Sleep(step)
	}
}
