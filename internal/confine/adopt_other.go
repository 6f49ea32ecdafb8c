//go:build !linux

package confine

import (
	"os"

	"github.com/tetherexec/tether/internal/proc"
)

// Adopt is not called: there is no keeper here.
func (c *Confiner) Adopt(map[proc.Which]*os.File, bool) *proc.Launcher { return nil }
