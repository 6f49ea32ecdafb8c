package statedir

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tetherexec/tether/internal/codexhome"
)

// Private returns the directories in which programs of this user keep the state and
// the sockets of tether servers: the default ones, whichever this server uses. Every
// sandbox hides them. A confined command that reaches a socket there could become a client
// of that server and start commands that are not confined.
//
// A sandbox can only hide a directory that exists when the command starts, and another
// server may be started later. So directories that are missing are made, if possible.
func Private(log *slog.Logger) []string {
	var dirs []string
	if state, err := Default(); err == nil {
		if _, err := Trusted(state); err != nil {
			log.Debug("cannot make the default state directory in order to hide it", "err", err)
		}
		dirs = append(dirs, state)
	}
	for _, dir := range runtimeDirs() {
		dirs = append(dirs, dir)
		if _, err := os.Stat(filepath.Dir(dir)); err != nil {
			continue // there is no login session
		}
		// After su, the variable names the directory of another user: leave it alone.
		if _, err := Trusted(dir); err != nil {
			log.Debug("cannot make the directory for sockets in order to hide it", "err", err)
		}
	}
	if home, err := codexhome.Find(os.Environ()); err == nil {
		dirs = append(dirs, home.ControlDir()) // only made when an app-server listens there
	}
	return dirs
}

// Runtime is tether's directory in $XDG_RUNTIME_DIR; "": there is no such variable.
func Runtime() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tether")
	}
	return ""
}

// runtimeDirs are Runtime and the directory that it is in a login session: a server
// that was not started in one does not have the variable.
func runtimeDirs() []string {
	usual := filepath.Join("/run/user", strconv.Itoa(os.Geteuid()), "tether")
	switch dir := Runtime(); dir {
	case "", usual:
		return []string{usual}
	default:
		return []string{dir, usual}
	}
}
