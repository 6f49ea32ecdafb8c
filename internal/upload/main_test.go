package upload

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helperEnv names the part that this test binary plays when a test starts it.
const helperEnv = "TETHER_UPLOAD_TEST"

var helpers = map[string]func(){}

func TestMain(m *testing.M) {
	if helper := helpers[os.Getenv(helperEnv)]; helper != nil {
		helper()
		os.Exit(0)
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
