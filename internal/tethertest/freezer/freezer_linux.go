// Package freezer makes processes that do not end when they are killed. It imports nothing else of tether than package
// need, so that the tests of every package can use it.
package freezer

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// patience is how long the kernel may take.
const patience = hang.Limit

// A Freezer is a control group of version 1 whose processes the kernel does not let run, not even to die: they look like
// processes that wait for a dead disk.
type Freezer struct {
	t   testing.TB
	dir string
}

// New makes a freezer. It skips the test if this machine has none. At the end of the test its processes may run again, and end.
func New(t testing.TB) *Freezer {
	t.Helper()
	need.Root(t, "to freeze processes")
	dir, err := os.MkdirTemp("/sys/fs/cgroup/freezer", "tether-test-")
	if err != nil {
		t.Skipf("no freezer of version 1 here: %v", err)
	}
	f := &Freezer{t, dir}
	t.Cleanup(func() {
		f.Thaw()
		for deadline := time.Now().Add(patience); unix.Rmdir(dir) == unix.EBUSY && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // its processes are ending
		}
	})
	return f
}

// Freeze stops a process. It returns when the process is stopped.
func (f *Freezer) Freeze(pid int) {
	f.t.Helper()
	f.write("cgroup.procs", strconv.Itoa(pid))
	f.write("freezer.state", "FROZEN")
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		state, err := os.ReadFile(filepath.Join(f.dir, "freezer.state"))
		switch {
		case err != nil || time.Now().After(deadline):
			f.t.Fatalf("process %d is %s: %v", pid, state, err)
		case strings.TrimSpace(string(state)) == "FROZEN":
			return
		}
	}
}

// Thaw lets the processes run again.
func (f *Freezer) Thaw() {
	f.t.Helper()
	f.write("freezer.state", "THAWED")
}

func (f *Freezer) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0); err != nil {
		f.t.Fatal(err)
	}
}
