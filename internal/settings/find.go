package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Variable names the configuration file, if it is not in its usual place.
const Variable = "TETHER_CONFIG"

// maxFile limits a file. A file with every setting and a hundred servers has 20 KiB.
const maxFile = 256 << 10

// Find reads the configuration file: the one that $TETHER_CONFIG names, else tether/tether.toml in the user's directory of
// configuration, else /etc/tether/tether.toml. It returns nil if there is none. A file that is named must exist, and so
// must one that a symbolic link in such a place names.
func Find() (*File, error) {
	if path := os.Getenv(Variable); path != "" {
		return Read(path)
	}
	for _, path := range places() {
		f, err := Read(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if _, missing := os.Lstat(path); missing == nil {
			return nil, err // a link to a file that does not exist
		}
	}
	return nil, nil
}

// places returns where the file may be, in the order of preference.
func places() (paths []string) {
	if dir, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(dir, "tether", "tether.toml"))
	}
	if runtime.GOOS != "windows" {
		paths = append(paths, "/etc/tether/tether.toml")
	}
	return paths
}

// load returns the text of a configuration file.
func load(path string) ([]byte, error) { return readTrusted("configuration file", path) }

// readTrusted returns the text of a file that decides what a program does, unless other users can change it. Errors call it what.
func readTrusted(what, path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", what, err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the %s: %w", what, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the %s %s is not a regular file", what, path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("other users can change the %s %s; run: chmod go-w %s", what, path, path)
	case !trusted(info):
		return nil, fmt.Errorf("the %s %s belongs to another user: it must be yours or root's", what, path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the %s: %w", what, err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("the %s %s has more than %d bytes", what, path, maxFile)
	}
	return text, nil
}
