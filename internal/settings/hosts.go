package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A HostsFile has the hosts that the user has allowed to commands for good: a pattern on each line. Empty lines and lines that begin with # do
// not count.
type HostsFile struct{ Path string }

// UserHosts returns the file allowed-hosts beside the user's configuration file.
func UserHosts() (HostsFile, error) {
	dir, err := os.UserConfigDir()
	return HostsFile{filepath.Join(dir, "tether", "allowed-hosts")}, err
}

// Read returns the patterns, if check accepts each of them. The file need not exist.
func (f HostsFile) Read(check func(pattern string) error) (patterns []string, err error) {
	text, err := f.text()
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := check(line); err != nil {
			return nil, fmt.Errorf("%s, line %d: %q: %w", f.Path, number, line, err)
		}
		patterns = append(patterns, line)
	}
	return patterns, nil
}

// Add adds a pattern, if it is not there yet. Several programs may do that at the same time.
func (f HostsFile) Add(pattern string) error {
	text, err := f.text()
	if err != nil {
		return err
	}
	line := pattern + "\n"
	if known := string(text); known != "" && !strings.HasSuffix(known, "\n") {
		line = "\n" + line
	} else if strings.Contains("\n"+known, "\n"+line) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return fmt.Errorf("make the directory of the file of allowed hosts: %w", err)
	}
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = file.WriteString(line)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("write the file of allowed hosts: %w", err)
	}
	return nil
}

// text returns the content of the file; nil: it does not exist.
func (f HostsFile) text() ([]byte, error) {
	text, err := readTrusted("file of allowed hosts", f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// IsBelow reports whether the file is in a directory, links followed, or would be if it existed. It is true if that is not known.
func (f HostsFile) IsBelow(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return true
	}
	place := f.Path
	for {
		real, err := filepath.EvalSymlinks(place)
		if err == nil {
			rel, err := filepath.Rel(dir, real)
			return err != nil || filepath.IsLocal(rel)
		}
		parent := filepath.Dir(place)
		if !errors.Is(err, fs.ErrNotExist) || parent == place {
			return true
		}
		place = parent
	}
}
