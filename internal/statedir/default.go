package statedir

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
)

// ErrUnusable is the end of every error about a directory that is missing, cannot be made or is not safe to use: it
// says what to do. A program that has a flag for the directory adds the flag to the text.
var ErrUnusable = errors.New("name a directory of your own with XDG_STATE_HOME")

// Default is $XDG_STATE_HOME/tether, or ~/.local/state/tether.
func Default() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tether"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil { // the environment has no home directory
		me, uerr := user.Current()
		if uerr != nil || me.HomeDir == "" {
			return "", fmt.Errorf("no place for the state directory: %w; %w", err, ErrUnusable)
		}
		home = me.HomeDir
	}
	return filepath.Join(home, ".local", "state", "tether"), nil
}
