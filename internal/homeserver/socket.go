package homeserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/tetherexec/tether/internal/statedir"
)

// socketName is the socket file in its directory.
const socketName = "server.sock"

// DefaultSocket is where this user's server listens: in $XDG_RUNTIME_DIR/tether, if
// that directory stays when the user logs out, else in a directory of this machine
// below the state directory. The directory is made, and refused if others may
// change it.
func DefaultSocket() (string, error) {
	dir, err := socketDir()
	if err != nil {
		return "", err
	}
	if _, err := statedir.Trusted(dir); err != nil {
		return "", fmt.Errorf("no place for the server's socket: %w", err)
	}
	if err := checkPrivate(dir); err != nil {
		return "", fmt.Errorf("%s is no place for the server's socket: %w", dir, err)
	}
	return filepath.Join(dir, socketName), nil
}

func socketDir() (string, error) {
	if dir := statedir.Runtime(); dir != "" && stays(filepath.Dir(dir)) {
		return dir, nil
	}
	state, err := statedir.Default()
	if err != nil {
		return "", err
	}
	machine, err := os.Hostname() // home directories may be shared between machines
	if err != nil || machine == "" || strings.ContainsRune(machine, filepath.Separator) {
		machine = "local"
	}
	return filepath.Join(state, "home", machine), nil
}

// stays reports whether a runtime directory is there, is ours (after su it is not), and
// outlives the login. The login manager removes /run/user/UID, and the socket of a server
// in it, when the last login of the user ends, unless the user may linger.
func stays(dir string) bool {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || !ownedByUs(info) {
		return false
	}
	if filepath.Dir(filepath.Clean(dir)) != "/run/user" {
		return true
	}
	me, err := user.Current()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join("/var/lib/systemd/linger", me.Username))
	return err == nil
}

// checkPrivate makes sure that nobody else can put a socket of his own there.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return &fs.PathError{Op: "use", Path: dir, Err: errors.New("not a directory")}
	case !ownedByUs(info):
		return errors.New("it belongs to somebody else")
	case open(info):
		return errors.New("others may use it; `chmod 700` would change that")
	}
	return nil
}
