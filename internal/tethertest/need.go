package tethertest

import (
	"context"
	"os/exec"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// withinTime bounds a test. It is much longer than any test takes.
const withinTime = hang.Limit

// Within returns a context that ends with the test, or when it takes far too long.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), withinTime)
	t.Cleanup(cancel)
	return ctx
}

// NeedBubblewrap skips a test if no command can be confined here; in CI the test fails.
func NeedBubblewrap(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err == nil {
		return
	}
	need.CannotRun(t, "bubblewrap is not installed")
}
