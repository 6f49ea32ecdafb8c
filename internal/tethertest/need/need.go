// Package need is for tests that need something from the machine that they run on. It
// imports nothing of tether, so that the tests of every package can use it.
package need

import (
	"os"
	"testing"
)

// CannotRun skips a test that cannot run on this machine. With CI=true the test fails: one
// that never runs there would go unnoticed.
func CannotRun(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("cannot run: "+format, args...)
	}
	t.Skipf("cannot run: "+format, args...)
}

// Root is called by tests that only root can run; what says what they need root for.
func Root(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		CannotRun(t, "needs root, %s", what)
	}
}
