package server

import "log/slog"

// OpenState makes a directory below a state directory that belongs to the caller
// alone, as each server has one, and removes those whose owners are gone. What
// servers share lies in the state directory itself.
func OpenState(parent string, log *slog.Logger) (own string, close func() error, err error) {
	d, err := openStateDir(parent, log)
	if err != nil {
		return "", nil, err
	}
	return d.path, d.close, nil
}
