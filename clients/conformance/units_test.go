package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// The tests of the Python client alone, among them those of its adapters, which get a server.
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

// The tests of the TypeScript client alone, among them those of its adapters, which get a server.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	if err := builtTypeScript(); err != nil {
		need.CannotRun(t, "%v: build it with scripts/build-typescript", err)
	}
	dist := filepath.Join("..", "typescript", "dist")
	cmd := exec.Command("node", "--test", filepath.Join(dist, "events.test.js"), filepath.Join(dist, "adapters", "adapters.test.js"))
	cmd.Env = append(os.Environ(), "TETHER_URL="+tethertest.StartServer(t, server.Config{}).URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
