//go:build !unix

package copy

import "io/fs"

// Umask has the permissions that new files of this process do not get: none is taken away
// on this system.
func Umask() fs.FileMode { return 0 }
