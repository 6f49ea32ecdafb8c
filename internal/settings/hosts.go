package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/filelock"
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

// addTime is how long Add waits for other programs that add patterns.
const addTime = 10 * time.Second

// Add adds a pattern, if it is not there yet. Several programs may do that at the same time. If it fails, the file is as before: the
// beginning of a pattern would be another pattern, for more hosts or ports.
func (f HostsFile) Add(pattern string) error {
	if _, err := f.text(); err != nil { // it must not be written either
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return fmt.Errorf("make the directory of the file of allowed hosts: %w", err)
	}
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write the file of allowed hosts: %w", err)
	}
	defer file.Close() // and with it the lock
	ctx, cancel := context.WithTimeout(context.Background(), addTime)
	defer cancel()
	if err := filelock.Wait(ctx, int(file.Fd()), filelock.Exclusive); err != nil {
		return fmt.Errorf("lock the file of allowed hosts: %w", err)
	}
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
	if _, err = file.WriteString(line); err != nil {
		err = errors.Join(err, file.Truncate(int64(len(text))))
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
