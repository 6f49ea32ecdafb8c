package tethertest

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// withinTime bounds a test; none comes near it.
const withinTime = 60 * time.Second

// Within returns a context that ends with the test, or when it takes far too long.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), withinTime)
	t.Cleanup(cancel)
	return ctx
}

// NeedBubblewrap skips a test where nothing can be confined; in CI that is a failure.
func NeedBubblewrap(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err == nil {
		return
	}
	need.CannotRun(t, "bubblewrap is not installed")
}
