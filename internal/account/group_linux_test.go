package account

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// version1 makes a group of version 1. It skips the test if there is no such hierarchy.
func version1(t *testing.T, controller string) string {
	t.Helper()
	need.Root(t, "to make control groups")
	dir, err := os.MkdirTemp("/sys/fs/cgroup/"+controller, "account-test-") // servers kill what is in groups named tether-… without a lock
	if err != nil {
		t.Skipf("no hierarchy of version 1 for %s here: %v", controller, err)
	}
	t.Cleanup(func() {
		for deadline := time.Now().Add(hang.Limit); errors.Is(unix.Rmdir(dir), unix.EBUSY) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // its processes are ending
		}
	})
	return dir
}

// The kernel's own groups have the figures: of a command that reaches its limit of memory.
func TestGroupsOfTheKernel(t *testing.T) {
	const limit = 16 << 20
	g := Groups{Memory: version1(t, "memory"), Pids: version1(t, "pids"), MemoryLimit: limit}
	if err := os.WriteFile(filepath.Join(g.Memory, "memory.limit_in_bytes"), []byte("16M"), 0); err != nil {
		t.Skip(err)
	}
	os.WriteFile(filepath.Join(g.Memory, "memory.memsw.limit_in_bytes"), []byte("16M"), 0) // where swap is accounted for
	var enter strings.Builder
	for _, dir := range []string{g.Memory, g.Pids} {
		enter.WriteString("echo $$ >" + dir + "/cgroup.procs; ")
	}
	cmd := exec.Command("sh", "-c", enter.String()+"dd if=/dev/zero of=/dev/null bs=64M count=1; exit $?")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Skipf("the limit has no effect here, perhaps because there is swap: %s", out)
	}
	var u Usage
	g.Add(&u)
	if u.Kill != (Kill{Processes: 1, Cause: OwnLimit, Limit: limit}) {
		t.Errorf("kill: %+v", u.Kill)
	}
	if u.Memory.Of != Tree || u.Memory.Bytes < limit*3/4 || u.Memory.Bytes > limit {
		t.Errorf("memory: %+v", u.Memory)
	}
	if _, err := os.Stat(filepath.Join(g.Pids, "pids.peak")); err == nil && (u.Processes < 2 || u.Processes > 4) {
		t.Errorf("processes: %d", u.Processes)
	}
}
