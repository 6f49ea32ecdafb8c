//go:build amd64 || arm64

package worker

import (
	"errors"
	"os"
	"testing"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/server"
)

// A spare proves that it can read the state. It refuses what a newer program has written, unless that may be skipped, and what
// it does not understand.
func TestProve(t *testing.T) {
	t.Parallel()
	var upload reexec.Encoder // see package session
	upload.Text("session")
	upload.Number(1)
	for name, row := range map[string]struct {
		kind    arena.NoteKind
		payload string
		want    int // exit status
	}{
		"nothing else":            {0, "", 0},
		"unknown":                 {noteServer + 1, "", keep.ExitOlder},
		"unknown, about sessions": {noteServer - 1, "", keep.ExitOlder},
		"may be skipped":          {noteServer + 1 | arena.Skippable, "", 0},
		"damaged":                 {noteServer, "?", keep.ExitUnreadable},
		"an upload":               {7 | arena.Skippable, string(upload), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := os.Open(os.DevNull) // only passed on
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			s, err := NewState(server.Config{StateDir: t.TempDir()}, listener)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if row.kind != 0 {
				if _, err := s.arena.Journal().Append(row.kind, []byte(row.payload)); err != nil {
					t.Fatal(err)
				}
			}
			got := 0
			err = prove(s.arena.File())
			if e, ok := errors.AsType[*StateError](err); ok {
				got = e.ExitStatus()
			}
			if got != row.want || got == 0 && err != nil {
				t.Errorf("exit status %d, %v", got, err)
			}
		})
	}
}
