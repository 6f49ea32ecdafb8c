package proc

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helpers are programs that this test binary can run as; an environment variable
// names the helper.
var helpers = map[string]func(){}

const helperVariable = "PROC_TEST_HELPER"

func TestMain(m *testing.M) {
	if name := os.Getenv(helperVariable); name != "" {
		run, ok := helpers[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no helper", name)
			os.Exit(2)
		}
		run()
		os.Exit(0)
	}
	if err := ResetInherited(); err != nil { // the parent of the test may leave descriptors open
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}
