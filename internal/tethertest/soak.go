package tethertest

import (
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/soak"
)

// Soak reports whether tests that search for faults by repetition, load or time run
// at full length. `make test` runs them short, `make soak` runs them in full.
func Soak() bool { return soak.Full() }

// SoakOnly skips a test whose short form would prove nothing.
func SoakOnly(t testing.TB) {
	t.Helper()
	if !Soak() {
		t.Skip("runs in make soak only")
	}
}

// Scaled returns full in make soak and short otherwise: a duration, a number of rounds.
func Scaled[T any](short, full T) T { return soak.Scaled(short, full) }
