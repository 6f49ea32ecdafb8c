package upload

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helperEnv names the role of this test binary when a test starts it.
const helperEnv = "TETHER_UPLOAD_TEST"

var helpers = map[string]func(){}

func TestMain(m *testing.M) {
	if helper := helpers[os.Getenv(helperEnv)]; helper != nil {
		helper()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
