package listen

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/filelock"
)

// lockTimeout is how long a start waits for another start in the same directory,
// which holds the lock for less than a millisecond.
const lockTimeout = 2 * time.Second

// lockDir keeps other servers from creating a socket file in dir until unlock. The
// lock is on the directory itself, so no lock file is left.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockTimeout, errors.New("another process holds a lock on the directory "+dir))
	defer cancel()
	if err := filelock.Wait(ctx, int(d.Fd()), filelock.Exclusive); err != nil {
		d.Close()
		return nil, err
	}
	return func() { d.Close() }, nil
}
