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

// socketName is the name of the socket file in its directory.
const socketName = "server.sock"

// DefaultSocket is the path of this user's server: in $XDG_RUNTIME_DIR/tether, if
// that directory stays when the user logs out, otherwise in a directory for this
// machine below the state directory. The directory is made, and refused if other
// users may change it.
func DefaultSocket() (string, error) {
	dir, err := socketDir()
	if err != nil {
		return "", err
	}
	if _, err := statedir.Trusted(dir); err != nil {
		return "", fmt.Errorf("no directory for the server's socket: %w", err)
	}
	if err := checkPrivate(dir); err != nil {
		return "", fmt.Errorf("%s cannot be used for the server's socket: %w", dir, err)
	}
	return filepath.Join(dir, socketName), nil
}

func socketDir() (string, error) {
	if dir := statedir.Runtime(); dir != "" && outlivesLogin(filepath.Dir(dir)) {
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

// outlivesLogin reports whether a runtime directory exists, belongs to this user (after su it
// does not), and outlives the login. The login manager removes /run/user/UID, and the
// socket of a server in it, when the last login of the user ends, unless the user may
// linger.
func outlivesLogin(dir string) bool {
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

// checkPrivate makes sure that no other user can put a socket there.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return &fs.PathError{Op: "use", Path: dir, Err: errors.New("not a directory")}
	case !ownedByUs(info):
		return errors.New("it belongs to another user")
	case open(info):
		return errors.New("other users have access to it; forbid that with `chmod 700`")
	}
	return nil
}
