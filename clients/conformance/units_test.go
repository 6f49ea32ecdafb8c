package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// The tests of the Python client alone, some of them with a server.
func TestPython(t *testing.T) {
	t.Parallel()
	python, err := findPython()
	if err != nil {
		need.CannotRun(t, "%v: install python3-websockets with scripts/need-websockets", err)
	}
	cmd := exec.Command(python, "-B", "-W", "error", "-m", "unittest", "discover", "-s", "tests")
	cmd.Dir = filepath.Join("..", "python")
	cmd.Env = append(os.Environ(), "TETHER_URL="+tethertest.StartServer(t, server.Config{}).URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The tests of the TypeScript client alone, some of them with a server.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	if err := builtTypeScript(); err != nil {
		need.CannotRun(t, "%v: build it with scripts/build-typescript", err)
	}
	dist := filepath.Join("..", "typescript", "dist")
	cmd := exec.Command("node", "--test")
	for _, name := range []string{"events.test.js", "ports.test.js", filepath.Join("adapters", "adapters.test.js")} {
		cmd.Args = append(cmd.Args, filepath.Join(dist, name))
	}
	cmd.Env = append(os.Environ(), "TETHER_URL="+tethertest.StartServer(t, server.Config{}).URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The example agents in Python and TypeScript. That in Go is among the other examples.
func TestExampleAgents(t *testing.T) {
	t.Parallel()
	const want = "exit code 0\n" +
		"$ cd DIR && echo 'echo 1 failed; exit 1' > test.sh && sh test.sh\n1 failed\nexit code 1\n" +
		"$ cd DIR && echo 'echo all passed' > test.sh && sh test.sh\nall passed\nexit code 0\n" +
		"$ rm -r DIR\nexit code 0\n"
	url := tethertest.StartServer(t, server.Config{}).URL
	for _, in := range languages[1:] {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			cmd := in.command(t)
			for i, arg := range cmd.Args { // the example is beside the program of the agent
				switch filepath.Base(arg) {
				case "conformance.py":
					cmd.Args[i] = filepath.Join("examples", "agent.py")
				case "conformance.js":
					cmd.Args[i] = filepath.Join(filepath.Dir(arg), "examples", "agent.js")
				}
			}
			cmd.Env = append(cmd.Environ(), "TETHER_URL="+url, "PYTHONPATH=.")
			out, err := cmd.CombinedOutput()
			_, rest, _ := strings.Cut(string(out), "\n")
			directory, rest, _ := strings.Cut(rest, "\n")
			if got := strings.ReplaceAll(rest, directory, "DIR"); err != nil || got != want || !filepath.IsAbs(directory) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
