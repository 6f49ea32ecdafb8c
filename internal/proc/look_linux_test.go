package proc

import (
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/observe"
)

// awaitLook looks at a process until the verdict is the expected one.
func awaitLook(t *testing.T, p *Process, want observe.Activity, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		v := observe.Decide(p.Look())
		if v.Activity == want && strings.Contains(v.Text, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, want %s %q", v, want, text)
		}
	}
}

// However a tree is found, its members are looked at, also those that have lost
// their parent.
func TestLookFindsTheTree(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *Supervisor) {
		for script, want := range map[string]struct {
			activity observe.Activity
			text     string
		}{
			"(cat <&3 & true) 3<&0; exec sleep 1000": {observe.WaitingForInput, "cat (pid"},
			"(sleep 1000 & true); exit":              {observe.OutputHeld, "sleep (pid"},
			"(sleep 1000; true) | cat":               {observe.BlockedOnPipe, "held by sleep (pid"},
			"mkfifo f; sleep 1000 >f & exec cat <f":  {observe.BlockedOnPipe, "held by sleep (pid"},
		} {
			p, _ := start(t, s, Spec{Argv: []string{"/bin/sh", "-c", script}, Dir: t.TempDir(), PipeStdin: true})
			awaitLook(t, p, want.activity, want.text)
			p.Kill()
			if e := p.Look(); len(e.Processes) != 0 {
				t.Errorf("%s: after its end there is %+v", script, e.Processes)
			}
		}
	})
}
