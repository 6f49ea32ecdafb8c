package files

import (
	"path/filepath"
	"strings"
	"syscall"
)

// Direct serves file requests with the permissions of this process. Where
// links may not be followed, the path is resolved in one step, never checked
// first and walked afterwards. Nothing is opened before its type is known, so
// that no request waits for a FIFO, a terminal or a device.
type Direct struct{}

var _ Files = Direct{}

// clean checks a path of a request and removes its dot segments by their names
// alone, as the protocol demands: "link/.." is the directory that contains link,
// not the parent of its target.
func clean(path string, follow bool) (string, error) {
	if strings.IndexByte(path, 0) >= 0 {
		if follow {
			return "", errNUL
		}
		return "", syscall.EINVAL
	}
	if !filepath.IsAbs(path) {
		return "", errRelative
	}
	return filepath.Clean(path), nil
}

// lossy converts a file name to UTF-8.
func lossy(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
