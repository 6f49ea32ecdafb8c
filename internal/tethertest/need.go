package tethertest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
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
	if os.Getenv("CI") == "true" {
		t.Fatal("bubblewrap is not installed")
	}
	t.Skip("bubblewrap is not installed")
}
