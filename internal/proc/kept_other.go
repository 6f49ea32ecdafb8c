//go:build !linux

package proc

import (
	"context"

	"github.com/tetherexec/tether/internal/arena"
)

func (*kept) running(Launched) {}

func (*host) adopt(context.Context, *Adoption) (*child, error) { return nil, ErrUnsupported }

// SweepUnclaimed does nothing here: there is no keeper.
func (*Supervisor) SweepUnclaimed(*arena.Arena) {}
