package statedir

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tetherexec/tether/internal/codexhome"
)

// Private returns the default directories for the state, the memory files and the sockets of this user's
// tether servers, even if this server uses others. Every sandbox hides them: a confined
// command that reaches a socket there could become a client of that server and start
// commands that are not confined.
//
// A sandbox can only hide a directory that exists when the command starts, and another
// server may be started later. So Private makes missing directories, if possible.
func Private(log *slog.Logger) []string {
	var dirs []string
	if state, err := Default(); err == nil {
		if _, err := Trusted(state); err != nil {
			log.Debug("cannot make the default state directory in order to hide it", "err", err)
		}
		dirs = append(dirs, state)
	}
	for _, dir := range append(runtimeDirs(), memoryDir()) {
		dirs = append(dirs, dir)
		if _, err := os.Stat(filepath.Dir(dir)); err != nil {
			continue // there is no login session, or no file system in memory
		}
		// After su, the variable names the directory of another user: leave it alone.
		if _, err := Trusted(dir); err != nil {
			log.Debug("cannot make a directory in order to hide it", "err", err)
		}
	}
	if home, err := codexhome.Find(os.Environ()); err == nil {
		dirs = append(dirs, home.ControlDir()) // only made when an app-server listens there
	}
	return dirs
}

// Runtime is tether's directory in $XDG_RUNTIME_DIR; "" if the variable is not set.
func Runtime() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tether")
	}
	return ""
}

// runtimeDirs are Runtime and its default in a login session: a server that was
// started outside of one does not have the variable.
func runtimeDirs() []string {
	usual := filepath.Join("/run/user", strconv.Itoa(os.Geteuid()), "tether")
	switch dir := Runtime(); dir {
	case "", usual:
		return []string{usual}
	default:
		return []string{dir, usual}
	}
}
