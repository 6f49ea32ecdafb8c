//go:build linux && !amd64 && !arm64

package fork

// A Starter starts programs.
type Starter struct{}

// NewStarter makes a starter.
func NewStarter() *Starter { return &Starter{} }

// Close does nothing.
func (*Starter) Close() {}

// Start starts a program and returns when it has been executed, or why it was not. The caller
// keeps its descriptors. If the command has a death signal, the caller must have locked its
// goroutine to its thread.
func (*Starter) Start(c *Command) (Child, error) { return forkExec(c) }
