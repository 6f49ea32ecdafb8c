//go:build !fleet

package main

import (
	"io"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/server"
)

// hasFleet: this program can neither join a fleet nor be another part of one.
const hasFleet = false

// prepare has only the case without --join.
func (f *joinFlags) prepare(_ server.Config, _ string, fs *pflag.FlagSet, _ io.Writer) (joining, error) {
	return func(s *server.Server) execServer { return s }, f.check(fs)
}
