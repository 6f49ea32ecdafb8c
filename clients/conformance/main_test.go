package conformance

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/tethertest"
)

// Either of these in the environment makes the test's program the agent of the Go client, or a command that serves a port.
const (
	beAgent = "TETHER_CONFORMANCE_AGENT"
	beEcho  = "TETHER_CONFORMANCE_ECHO"
)

func TestMain(m *testing.M) {
	if os.Getenv(beAgent) != "" {
		if err := runGoAgent(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(beEcho) != "" {
		serveEcho()
	}
	tethertest.StopIgnoringSignals()
	goleak.VerifyTestMain(m)
}
