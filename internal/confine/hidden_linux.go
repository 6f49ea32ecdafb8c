package confine

import (
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// Hidden returns the paths that every sandbox hides, with all that is below: as they
// were named, where links in them led when the server started, and where they lead now.
func (c *Confiner) Hidden() []string {
	hidden := slices.Clone(c.config.Private)
	for _, p := range c.config.Private {
		if hasNoLinks(p) {
			continue
		}
		if now, err := filepath.EvalSymlinks(p); err == nil && !slices.Contains(hidden, now) {
			hidden = append(hidden, now)
		}
	}
	return hidden
}

// hasNoLinks reports whether something is at a path and no link leads there. It is
// quicker than to find out where one leads.
func hasNoLinks(path string) bool {
	fd, err := at.Open(unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}
