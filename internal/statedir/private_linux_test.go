package statedir_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/tetherexec/tether/internal/statedir"
)

// The directories of a server that is started later exist already, so sandboxes that were
// made before hide them.
func TestPrivateDirsExist(t *testing.T) {
	state, runtime, codex := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	t.Setenv("CODEX_HOME", codex)
	dirs := statedir.Private(slog.New(slog.DiscardHandler))
	for _, want := range []string{state + "/tether", runtime + "/tether"} {
		info, err := os.Stat(want)
		if err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", want, info, err)
		}
		if !slices.Contains(dirs, want) {
			t.Errorf("%s is not in %v", want, dirs)
		}
	}
	usual := filepath.Join("/run/user", strconv.Itoa(os.Geteuid()), "tether")
	memory := "/dev/shm/tether-" + strconv.Itoa(os.Geteuid())
	for _, want := range []string{usual, memory, codex + "/app-server-control"} {
		if !slices.Contains(dirs, want) {
			t.Errorf("%s is not in %v", want, dirs)
		}
	}
	if os.Geteuid() == 0 { // after su
		theirs := t.TempDir()
		if err := os.Chown(theirs, 4321, 4321); err != nil {
			t.Fatal(err)
		}
		t.Setenv("XDG_RUNTIME_DIR", theirs)
		statedir.Private(slog.New(slog.DiscardHandler))
		if made, err := os.ReadDir(theirs); err != nil || len(made) > 0 {
			t.Errorf("made in the directory of another user: %v, %v", made, err)
		}
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if dirs := statedir.Private(slog.New(slog.DiscardHandler)); len(dirs) != 4 {
		t.Errorf("without XDG_RUNTIME_DIR: %v", dirs)
	}
}
