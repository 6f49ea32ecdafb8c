package statedir

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
)

// Default is $XDG_STATE_HOME/tether, or ~/.local/state/tether.
func Default() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tether"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil { // a bare environment
		me, uerr := user.Current()
		if uerr != nil || me.HomeDir == "" {
			return "", fmt.Errorf("no place for the state directory, name one with `--state-dir`: %w", err)
		}
		home = me.HomeDir
	}
	return filepath.Join(home, ".local", "state", "tether"), nil
}
