package seccomp

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helperEnv, when set, makes the test binary a helper that loads a program into
// itself instead of running tests; its value says what to do.
const helperEnv = "SECCOMP_TEST_HELPER"

// helper is set where the kernel tests are built. It does not return.
var helper func(task string)

func TestMain(m *testing.M) {
	if task := os.Getenv(helperEnv); task != "" && helper != nil {
		helper(task)
	}
	goleak.VerifyTestMain(m)
}

// cannotRun skips a test that this machine cannot decide, and fails it in CI,
// where a test that never runs would go unnoticed.
func cannotRun(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("cannot run: "+format, args...)
	}
	t.Skipf("cannot run: "+format, args...)
}
