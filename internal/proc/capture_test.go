//go:build linux

package proc

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/outlog"
)

// A capture keeps the beginning of the output, or of one stream. It passes all pieces to
// Each, and stops reading a stream when Each returns an error.
func TestCapture(t *testing.T) {
	s := newSupervisor(t, Config{})
	run := func(c *Capture, script string) (string, int) {
		t.Helper()
		p, err := s.Start(t.Context(), shell(script), c)
		if err != nil {
			t.Fatal(err)
		}
		awaitDone(t, p)
		select {
		case <-c.Exited():
		default:
			t.Error("Exited is open after the end")
		}
		output, code := c.Result()
		return string(output), code
	}
	if output, code := run(new(Capture), "echo one; exit 3"); output != "" || code != 3 {
		t.Errorf("%q, %d", output, code)
	}
	if output, code := run(&Capture{Limit: 5}, "echo one; echo two >&2"); len(output) != 5 || code != 0 {
		t.Errorf("%q, %d", output, code)
	}
	var seen strings.Builder
	each := func(_ outlog.Stream, piece, _ []byte) error { seen.Write(piece); return nil }
	if output, _ := run(&Capture{Limit: 100, Only: outlog.Stderr, Each: each}, "echo one; echo two >&2"); output != "two\n" || seen.Len() != 8 {
		t.Errorf("kept %q of %q", output, seen.String())
	}
	gate, pieces := t.TempDir()+"/gate", 0
	enough := &Capture{Limit: 100, Each: func(outlog.Stream, []byte, []byte) error {
		pieces++
		return errors.Join(os.WriteFile(gate, nil, 0o600), errors.New("enough"))
	}}
	if output, _ := run(enough, "echo one; until [ -e "+gate+" ]; do sleep 0.01; done; echo two"); output != "one\n" || pieces != 1 {
		t.Errorf("kept %q, shown %d pieces", output, pieces)
	}
}
