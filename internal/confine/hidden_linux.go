package confine

import (
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// Hidden returns the paths that every sandbox hides, with everything below: as
// configured, as resolved when the server started, and as resolved now.
func (c *Confiner) Hidden() []string {
	hidden := slices.Clone(c.private)
	for _, p := range c.private {
		if hasNoLinks(p) {
			continue
		}
		if now, err := filepath.EvalSymlinks(p); err == nil && !slices.Contains(hidden, now) {
			hidden = append(hidden, now)
		}
	}
	return hidden
}

// hasNoLinks reports whether a path exists and contains no links. It is quicker
// than resolving the path.
func hasNoLinks(path string) bool {
	fd, err := at.Open(unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}
