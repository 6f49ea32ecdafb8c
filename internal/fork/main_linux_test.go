package fork

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/files/at"
)

// helpers are programs that this test binary can run as; an environment variable names the helper.
var helpers = map[string]func(){}

const helperVariable = "FORK_TEST_HELPER"

func TestMain(m *testing.M) {
	if err := at.CloseOnExecFrom(3); err != nil { // the parent of the test may leave descriptors open
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if name := os.Getenv(helperVariable); name != "" {
		run, ok := helpers[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no helper", name)
			os.Exit(2)
		}
		run()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// startHelper runs this test binary as a helper, by shell code in which "$0" is the binary, and
// returns its lines. The helper ends with the test.
func startHelper(t *testing.T, name, shell string, files ...*os.File) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", shell, exe)
	cmd.Env = append(os.Environ(), helperVariable+"="+name)
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, files
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// must is for helpers.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
