//go:build !linux

package outlog

import "github.com/tetherexec/tether/internal/arena"

func take(*arena.Slot, int, *Between, int) (int, error) { return 0, arena.ErrUnsupported }

func awaitable(int, *Between) error { return arena.ErrUnsupported }

func available(int) int { return 0 }
