//go:build !linux

package proc

import (
	"context"
	"os"

	"github.com/tetherexec/tether/internal/arena"
)

func (*kept) running() {}

func (*kept) reported(Launched, []*os.File) error { return nil }

func (*host) adopt(context.Context, *Adoption) (*child, error) { return nil, ErrUnsupported }

func (*host) discardTree(*arena.Slot) {}

// SweepUnclaimed does nothing here: there is no keeper.
func (*Supervisor) SweepUnclaimed(*arena.Arena) {}
