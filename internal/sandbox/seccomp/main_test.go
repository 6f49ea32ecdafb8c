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
