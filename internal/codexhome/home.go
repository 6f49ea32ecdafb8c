package codexhome

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tetherexec/tether/internal/environ"
	"github.com/tetherexec/tether/internal/oserr"
)

// SystemDir has the files of the machine's administrator.
const SystemDir = "/etc/codex"

// A Home has the directories of the configuration files. They are absolute; empty
// means unknown.
type Home struct {
	User   string // the home directory
	Codex  string // CODEX_HOME, or .codex in the home directory
	System string // the administrator's directory; empty if there is none
}

// Find finds the directories from env, a server's environment. CODEX_HOME has to be
// a directory, the default need not exist.
func Find(env []string) (Home, error) {
	home := Home{User: environ.ThisHost(env).Home}
	if !filepath.IsAbs(home.User) {
		home.User = ""
	}
	if runtime.GOOS != "windows" {
		home.System = SystemDir
	}
	var err error
	home.Codex, err = codexDir(home.User, variable(env, "CODEX_HOME"))
	return home, err
}

// ControlDir is the directory of the socket of this user's app-server.
func (h Home) ControlDir() string { return filepath.Join(h.Codex, "app-server-control") }

func codexDir(userHome, named string) (string, error) {
	if named == "" {
		if userHome == "" {
			return "", errors.New("Could not find home directory")
		}
		return filepath.Join(userHome, ".codex"), nil
	}
	info, err := os.Stat(named)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("CODEX_HOME points to %q, but that path does not exist", named)
	case err != nil:
		return "", fmt.Errorf("failed to read CODEX_HOME %q: %s", named, oserr.Text(err))
	case !info.IsDir():
		return "", fmt.Errorf("CODEX_HOME points to %q, but that path is not a directory", named)
	}
	dir, err := filepath.Abs(named)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// variable is the value of an environment variable; if it is given twice, the last
// one.
func variable(env []string, name string) (value string) {
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}
