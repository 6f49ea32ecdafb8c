package statedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/proc"
)

// A durable server has a directory with a fixed name, so that the next one finds what it has left: a state directory has room
// for one. The lock is outside of the directory, which can so be removed and made again by the owner of the lock.
const (
	durableName = "durable"
	durableLock = "durable.lock"
	memoryName  = "memory" // the path of the memory file, in the directory
	groupsName  = "groups" // the paths of control groups, in the directory
)

// lockPatience is how long OpenDurable waits for the lock: the last process of a server that was killed may still be ending its commands, or
// itself.
const lockPatience = 5 * time.Second

// ErrInUse means that another durable server uses the state directory.
var ErrInUse = errors.New("another durable server uses the state directory")

// OpenDurable opens the directory of the durable server below parent, which is made if it does not exist. Only one server can
// have it at a time: for another one it returns ErrInUse.
func OpenDurable(parent string) (*Dir, error) {
	parent, err := Trusted(parent)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockPatience, ErrInUse)
	defer cancel()
	lock, err := filelock.Lock(ctx, filepath.Join(parent, durableLock))
	switch {
	case errors.Is(err, ErrInUse):
		return nil, fmt.Errorf("%w %s", ErrInUse, parent)
	case err != nil:
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	d := &Dir{Shared: parent, Own: filepath.Join(parent, durableName), lock: lock}
	if err := d.make(); err != nil {
		return nil, errors.Join(fmt.Errorf("open state directory: %w", err), lock.Close())
	}
	return d, nil
}

// make makes the directory if it does not exist.
func (d *Dir) make() error {
	if err := os.Mkdir(d.Own, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !ownDir(d.Own) {
		return fmt.Errorf("%s is not a directory of this user; %w", d.Own, ErrUnusable)
	}
	return os.Chmod(d.Own, 0o700)
}

// Durable reports whether the next server goes on with this directory if this one is killed.
func (d *Dir) Durable() bool { return filepath.Base(d.Own) == durableName }

// Groups is the file with the paths of control groups.
func (d *Dir) Groups() string { return filepath.Join(d.Own, groupsName) }

// KillLeft ends the processes that a server has left.
func (d *Dir) KillLeft(log *slog.Logger) error {
	return errors.Join(proc.SweepNotes(d.Commands(), log), proc.SweepGroups(d.Groups(), log))
}

// Memory returns the path of the memory file; "": there is none.
func (d *Dir) Memory() string {
	text, err := os.ReadFile(filepath.Join(d.Own, memoryName))
	name := string(text)
	if err != nil || filepath.Dir(name) != memoryDir() || !strings.HasPrefix(filepath.Base(name), memoryPrefix) {
		return ""
	}
	return name
}

const memoryPrefix = "arena-"

// NewMemory returns a path for a new memory file, and records it. The file is removed with the directory.
func (d *Dir) NewMemory() (string, error) {
	dir, err := Trusted(memoryDir())
	if err != nil {
		return "", fmt.Errorf("open the directory for memory files: %w", err)
	}
	f, err := os.CreateTemp(dir, memoryPrefix)
	if err != nil {
		return "", err
	}
	name := f.Name()
	if err := errors.Join(f.Close(), os.Remove(name)); err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(d.Own, memoryName), []byte(name), 0o600)
}

// OtherMemory returns the paths of the memory files of this user, except for that of the directory.
func (d *Dir) OtherMemory() []string {
	found, _ := filepath.Glob(filepath.Join(memoryDir(), memoryPrefix+"*")) // the pattern is well-formed
	own := d.Memory()
	return slices.DeleteFunc(found, func(name string) bool { return name == own })
}

// Names reports whether the directory own of a durable server names a memory file.
func Names(own, memory string) bool { return (&Dir{Own: own}).Memory() == memory }

// Reset removes what is in the directory, with the memory file.
func (d *Dir) Reset() error {
	err := d.removeMemory()
	return errors.Join(err, os.RemoveAll(d.Own), d.make())
}

func (d *Dir) removeMemory() error {
	name := d.Memory()
	if name == "" {
		return nil
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// memoryDir is the directory of this user for memory files with names.
func memoryDir() string { return filepath.Join("/dev/shm", "tether-"+strconv.Itoa(os.Geteuid())) }

// Abandon gives the directory up, because this server cannot start. What an earlier durable server has left stays.
func (d *Dir) Abandon() error {
	if d.Durable() {
		return d.lock.Close()
	}
	return d.Close()
}

// sweepDurable ends the processes of a durable server that has ended. The rest stays for the next durable server.
func (d *Dir) sweepDurable(log *slog.Logger) {
	lock, err := filelock.TryLock(filepath.Join(d.Shared, durableLock))
	if err != nil {
		return // there is none, or it runs
	}
	defer lock.Close()
	left := &Dir{Shared: d.Shared, Own: filepath.Join(d.Shared, durableName)}
	if !ownDir(left.Own) {
		return
	}
	if err := left.KillLeft(log); err != nil {
		log.Warn("cannot end the commands of a durable server that has ended", "dir", left.Own, "err", err)
	}
}
