//go:build interop

package interop_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// worker returns the pid of the present worker of a server with a keeper; 0: there is none.
func (s *server) worker() int {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.cmd.Process.Pid))
	for _, field := range strings.Fields(string(list)) {
		command, _ := os.ReadFile("/proc/" + field + "/cmdline")
		if pid, err := strconv.Atoi(field); err == nil && bytes.Contains(command, []byte("\x00be-child\x00worker\x00")) {
			return pid
		}
	}
	return 0
}

// newWorkerKiller returns a cutter that kills the worker of the server.
func newWorkerKiller(t *testing.T, every, times int) cutter {
	t.Helper()
	program(t, tether)
	if err := keep.Probe(); err != nil {
		need.CannotRun(t, "there is no keeper on this machine: %v", err)
	}
	kill := func(r *codexRun) bool {
		pid := r.server.worker()
		return pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
	}
	return cutter{every, times, kill, filepath.Join(t.TempDir(), "done")}
}

// killWorkers runs a command that prints as much as with cuts, and checks that a worker was killed so many times, and that the
// client noticed nothing but lost connections.
func killWorkers(t *testing.T, c cutter) {
	t.Helper()
	r := runCodex(t, tether, oneCommand(map[string]any{"cmd": c.paced(cutLines, 67_500, "0.1"), "yield_time_ms": 30000}), c.run, "--keeper")
	r.wantExit(t)
	if links := r.cable.Links(); links <= c.times {
		t.Errorf("%d connections, want at least %d", links, c.times+1)
	}
	r.wantOutput(t, numbered(cutLines))
	r.server.stop()
	if r.server.status != nil {
		t.Errorf("the server has ended with %v\n%s", r.server.status, &r.server.stderr)
	}
}

// TestCodexSurvivesTheWorker kills the server's worker while the command prints 40 MB.
func TestCodexSurvivesTheWorker(t *testing.T) {
	tethertest.SoakOnly(t)
	t.Parallel()
	killWorkers(t, newWorkerKiller(t, 20<<20, 1))
}

// TestCodexSurvivesThreeWorkers kills three workers in one command that prints 40 MB (in make test: 10 MB).
func TestCodexSurvivesThreeWorkers(t *testing.T) {
	t.Parallel()
	killWorkers(t, newWorkerKiller(t, tethertest.Scaled(2<<20, 10<<20), 3))
}
