//go:build !mcp && !fleet && split

package main

import "github.com/tetherexec/tether/internal/server"

// hasOTLP: a companion exports spans.
const hasOTLP = false

// export is not called.
func (*otlpFlags) export(*server.Config) (close func(), err error) { return nil, nil }
