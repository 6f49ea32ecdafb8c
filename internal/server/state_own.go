package server

import "log/slog"

// OpenState opens a state directory for a program that is no server: shared is its
// real name, own a directory in it that belongs to the caller alone, as each server
// has one. Those whose owners are gone are removed.
func OpenState(parent string, log *slog.Logger) (shared, own string, close func() error, err error) {
	d, err := openStateDir(parent, log)
	if err != nil {
		return "", "", nil, err
	}
	return d.parent, d.path, d.close, nil
}
