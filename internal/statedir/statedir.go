package statedir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/proc"
)

// A Dir is the directory of one running server. It is locked while the server runs.
// If the server is killed, the next one removes it, or if it is durable, the next durable one goes on with it.
type Dir struct {
	Shared string // the real name of the directory that servers share
	Own    string // a directory in Shared that belongs to this server alone
	lock   *os.File
}

// Uploads is where the journal of uploads is.
func (d *Dir) Uploads() string { return filepath.Join(d.Own, uploadsName) }

// Commands is where the notes about commands are.
func (d *Dir) Commands() string { return filepath.Join(d.Own, commandsName) }

// Notice is the file of the keeper's last error. It is empty while all is well.
func (d *Dir) Notice() string { return filepath.Join(d.Own, noticeName) }

// Notices returns what the keepers of all servers in a shared directory report.
func Notices(shared string) []string {
	var notices []string
	names, _ := filepath.Glob(filepath.Join(shared, ownPattern, noticeName)) // the pattern is well-formed
	names = append(names, filepath.Join(shared, durableName, noticeName))
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(f, maxNotice))
		f.Close()
		if line := strings.TrimSpace(string(text)); err == nil && line != "" {
			notices = append(notices, line)
		}
	}
	return notices
}

// maxNotice limits what is read of a notice, which is a line.
const maxNotice = 4 << 10

const (
	ownPattern   = "server-*"
	lockName     = "lock"
	noticeName   = "notice"   // the keeper's last error
	uploadsName  = "uploads"  // the journal of uploads
	commandsName = "commands" // the notes about commands
)

// Open creates a directory for this server below parent.
func Open(parent string) (*Dir, error) {
	parent, err := Trusted(parent)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	parentLock, err := filelock.Lock(context.Background(), filepath.Join(parent, lockName))
	if err != nil {
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	defer parentLock.Close()
	path, err := os.MkdirTemp(parent, ownPattern)
	if err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
	}
	lock, err := filelock.Lock(context.Background(), filepath.Join(path, lockName))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock state directory: %w", err), os.RemoveAll(path))
	}
	return &Dir{Shared: parent, Own: path, lock: lock}, nil
}

// Lock is the file whose lock tells other servers that this one runs. A copy of the descriptor keeps
// the lock when this program has ended.
func (d *Dir) Lock() *os.File { return d.lock }

// Adopt returns a directory that an earlier program has opened. lock is a copy of its Lock.
func Adopt(shared, own string, lock *os.File) *Dir {
	return &Dir{Shared: shared, Own: own, lock: lock}
}

// Sweep removes the directories of servers of this user that have ended: their lock is
// free.
func (d *Dir) Sweep(log *slog.Logger) {
	if !filelock.Supported {
		return // without locks, the directories of running servers look the same
	}
	// While the shared directory is locked, no other server makes a directory in it.
	parentLock, err := filelock.Lock(context.Background(), filepath.Join(d.Shared, lockName))
	if err != nil {
		log.Warn("cannot look for the state of servers that have ended", "dir", d.Shared, "err", err)
		return
	}
	defer parentLock.Close()
	d.sweepDurable(log)
	old, _ := filepath.Glob(filepath.Join(d.Shared, ownPattern)) // the pattern is well-formed
	for _, path := range old {
		if !ownDir(path) {
			log.Warn("cannot remove the state of a server that has ended: not a directory of this user", "dir", path)
			continue
		}
		// A directory without a lock file was left by a server that was killed while it made or removed it, or is being
		// removed now. A new lock file would disturb the server that removes it.
		lock, err := filelock.TryLock(filepath.Join(path, lockName))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		sweepOne(path, log)
		if lock != nil {
			lock.Close()
		}
	}
}

// sweepOne kills the processes that a server has left, and removes its directory.
func sweepOne(path string, log *slog.Logger) {
	if err := proc.SweepNotes(filepath.Join(path, commandsName), log); err != nil {
		log.Warn("cannot end the commands of a server that has ended", "dir", path, "err", err)
	}
	if err := upload.Sweep(filepath.Join(path, uploadsName)); err != nil {
		log.Warn("cannot clean up after the uploads of a server that has ended", "dir", path, "err", err)
		return // the next server tries again
	}
	if err := os.RemoveAll(path); err != nil {
		log.Warn("cannot remove the state of a server that has ended", "dir", path, "err", err)
	}
}

// Close removes the directory of this server.
func (d *Dir) Close() error {
	return errors.Join(d.removeMemory(), os.RemoveAll(d.Own), d.lock.Close())
}
