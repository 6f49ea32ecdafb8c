//go:build !linux

package proc

import "log/slog"

// SweepNotes does nothing: only Linux has notes.
func SweepNotes(string, *slog.Logger) error { return nil }

// SweepGroups does nothing: only Linux has control groups.
func SweepGroups(string, *slog.Logger) error { return nil }
