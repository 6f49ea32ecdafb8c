//go:build !linux

package confine

import "github.com/tetherexec/tether/internal/proc"

// Adopt is not called: there is no keeper here.
func (c *Confiner) Adopt(Adoption) *proc.Launcher { return nil }
