//go:build !mcp && (fleet || !split)

package main

import (
	"context"
	"io"
)

// run replaces this process by the program that has the cable.
func (f *chaosFlags) run(context.Context, io.Writer, io.Writer) error {
	return withMCP.become(nameChaos, f.args)
}
