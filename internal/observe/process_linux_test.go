package observe

import (
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// testTimeout is how long a test waits for an event before it fails.
const testTimeout = hang.Limit

// inBothModes runs a test with cgroups, where there are any, and without.
func inBothModes(t *testing.T, test func(t *testing.T, s *proc.Supervisor)) {
	for name, cfg := range map[string]proc.Config{"cgroup": {}, "table": {NoCgroups: true}} {
		t.Run(name, func(t *testing.T) {
			s := proc.New(cfg)
			t.Cleanup(s.Close)
			test(t, s)
		})
	}
}

func start(t *testing.T, s *proc.Supervisor, spec proc.Spec) (*proc.Process, *outlog.Log) {
	t.Helper()
	log := outlog.New(outlog.NewPool(t.TempDir(), 1<<20), outlog.Config{})
	t.Cleanup(log.End)
	p, err := s.Start(t.Context(), spec, log)
	if err != nil {
		t.Fatal(err)
	}
	return p, log
}

// await waits until a condition is true.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// awaitLook inspects a process until the verdict is the expected one.
func awaitLook(t *testing.T, p *proc.Process, want Activity, text string) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		v := Decide(LookAt(p))
		if v.Activity == want && strings.Contains(v.Text, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, want %s %q", v, want, text)
		}
	}
}

// With and without cgroups, all members of a tree are inspected, also those that
// have lost their parent.
func TestLookFindsTheTree(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *proc.Supervisor) {
		for script, want := range map[string]struct {
			activity Activity
			text     string
		}{
			"(cat <&3 & true) 3<&0; exec sleep 1000": {WaitingForInput, "cat (pid"},
			"(sleep 1000 & true); exit":              {OutputHeld, "sleep (pid"},
			"(sleep 1000; true) | cat":               {BlockedOnPipe, "held by sleep (pid"},
			"mkfifo f; sleep 1000 >f & exec cat <f":  {BlockedOnPipe, "held by sleep (pid"},
		} {
			p, _ := start(t, s, proc.Spec{Argv: []string{"/bin/sh", "-c", script}, Dir: t.TempDir(), PipeStdin: true})
			awaitLook(t, p, want.activity, want.text)
			p.Kill()
			if e := LookAt(p); len(e.Processes) != 0 {
				t.Errorf("%s: after its end there is %+v", script, e.Processes)
			}
		}
	})
}
