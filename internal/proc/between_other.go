//go:build !linux

package proc

import "github.com/tetherexec/tether/internal/outlog"

// newBetween is not called: no log of these systems is a Filler.
func newBetween() (*outlog.Between, error) { return nil, nil }

func closeBetween(*outlog.Between) {}
