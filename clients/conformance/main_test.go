package conformance

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/tethertest"
)

// beAgent in the environment makes the test's program the agent of the Go client.
const beAgent = "TETHER_CONFORMANCE_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(beAgent) != "" {
		if err := runGoAgent(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	tethertest.StopIgnoringSignals()
	goleak.VerifyTestMain(m)
}
