package fleettest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/tethertest"
)

func TestMain(m *testing.M) {
	tethertest.StopIgnoringSignals()
	goleak.VerifyTestMain(m)
}
