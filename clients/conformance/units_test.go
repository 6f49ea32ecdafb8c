package conformance

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// The tests of the Python client that need no server.
func TestPython(t *testing.T) {
	t.Parallel()
	python, err := findPython()
	if err != nil {
		need.CannotRun(t, "%v: install python3-websockets with scripts/need-websockets", err)
	}
	cmd := exec.Command(python, "-B", "-W", "error", "-m", "unittest", "discover", "-s", "tests")
	cmd.Dir = filepath.Join("..", "python")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The tests of the TypeScript client that need no server.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	if err := builtTypeScript(); err != nil {
		need.CannotRun(t, "%v: build it with scripts/build-typescript", err)
	}
	cmd := exec.Command("node", "--test", filepath.Join("..", "typescript", "dist", "events.test.js"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
