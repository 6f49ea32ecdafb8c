//go:build !unix

package main

import "io/fs"

// umask has the permissions that new files of this process do not get: none is taken away
// on this system.
func umask() fs.FileMode { return 0 }
