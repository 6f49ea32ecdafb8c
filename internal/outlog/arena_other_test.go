//go:build !linux || (!amd64 && !arm64)

package outlog

// A testArena is always nil: there are no arenas on this system.
type testArena struct{}

func newTestArena(failer) *testArena      { return nil }
func (*testArena) config(c Config) Config { return c }
func (*testArena) reopen(*Pool, []*model) {}
func (*testArena) checkEmpty()            {}
func (*testArena) close()                 {}
