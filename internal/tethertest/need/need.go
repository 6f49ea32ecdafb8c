// Package need is for tests that need something from the machine that they run on. It
// imports nothing of tether, so that the tests of every package can use it.
package need

import (
	"os"
	"testing"
)

// CannotRun skips a test that cannot run on this machine. With CI=true the test fails, because a test that is always skipped
// would not be noticed.
func CannotRun(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("cannot run: "+format, args...)
	}
	t.Skipf("cannot run: "+format, args...)
}

// Root skips a test that needs root if the user is not root. what completes the sentence "needs root, …".
func Root(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		CannotRun(t, "needs root, %s", what)
	}
}
