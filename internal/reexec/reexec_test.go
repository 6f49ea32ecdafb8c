package reexec

import "testing"

// A program that is started as a helper which its system does not have fails, and does not go on as the program itself.
func TestHelperThatDoesNotExist(t *testing.T) {
	for _, row := range []struct {
		name, system string
		exists       bool
	}{{Files, "linux", true}, {"other", "linux", false}, {Files, "darwin", false}, {Sandbox, "windows", false}} {
		if got := exists(row.name, row.system); got != row.exists {
			t.Errorf("%s on %s: %v", row.name, row.system, got)
		}
	}
}
