//go:build !unix

package copy

import "io/fs"

// Umask returns the permissions that new files of this process do not get. This system has no umask.
func Umask() fs.FileMode { return 0 }
