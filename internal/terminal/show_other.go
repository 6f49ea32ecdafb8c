//go:build !linux && !darwin

package terminal

import "os"

// OnlyShow changes nothing on this system.
func OnlyShow(*os.File) (restore func()) { return func() {} }
