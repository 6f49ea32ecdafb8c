//go:build !linux

package placeholder

import "log/slog"

// A Ledger holds nothing on this system.
type Ledger struct{}

// A Lease is empty on this system.
type Lease struct{}

// Open returns a ledger that cannot hold placeholders.
func Open(string, *slog.Logger) (*Ledger, error) { return &Ledger{}, nil }

// Acquire refuses all but an empty list.
func (l *Ledger) Acquire(wants []Want) (*Lease, error) {
	if len(wants) > 0 {
		return nil, ErrUnsupported
	}
	return &Lease{}, nil
}

// Release does nothing.
func (lease *Lease) Release() {}

// Holds returns false: there are no placeholders.
func (l *Ledger) Holds(string) bool { return false }

// Sweep does nothing.
func (l *Ledger) Sweep() error { return nil }

// Close does nothing.
func (l *Ledger) Close() error { return nil }

// StartSweeper does nothing.
func (l *Ledger) StartSweeper(string, []string) (int, error) { return 0, nil }
