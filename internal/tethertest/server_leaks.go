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

// Children returns the child processes of this process, zombies included, as "PID COMMAND".
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

// NothingLeft counts the open files and children of this process. It returns a function that waits until there are no more than
// that, and fails the test otherwise.
func NothingLeft(t testing.TB) (check func()) {
	t.Helper()
	time.AfterFunc(time.Hour, func() {}).Stop() // the runtime opens a descriptor for its first timer
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
	deadline := time.Now().Add(timeLimit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", timeLimit, err)
		}
		time.Sleep(step)
	}
}
