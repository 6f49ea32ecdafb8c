//go:build !unix

package terminal

import "os"

var harmlessSignals map[os.Signal]string

// isSame reports whether two handles are of the same file, or both of the console. Pipes count
// as different, because Windows has no file number for them and os.SameFile would take any two for the same.
func isSame(a, b *os.File) bool {
	ai, aerr := a.Stat()
	bi, berr := b.Stat()
	if aerr != nil || berr != nil || !ai.Mode().IsRegular() || !bi.Mode().IsRegular() {
		return Is(a) && Is(b)
	}
	return os.SameFile(ai, bi)
}

func FollowSize(*os.File, func(rows, cols uint16)) (stop func()) { return func() {} }
