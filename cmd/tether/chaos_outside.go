//go:build !mcp && !split

package main

import (
	"context"
	"io"
)

// run replaces this process by the program that has the cable.
func (f *chaosFlags) run(context.Context, io.Writer, io.Writer) error {
	return becomeMCPProgram("chaos", f.args)
}
