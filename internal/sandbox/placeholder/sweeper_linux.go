package placeholder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/internal/reexec"
)

// A sweeper is a process that stays when a server has ended whose placeholders are in use by
// ledgers with another registry, and removes them when they are not. In a directory with
// the sticky bit, such as /tmp, only the user who made a placeholder can do that.
const (
	// maxSweep is how long a sweeper stays: another user can keep a placeholder locked for
	// ever. The next server removes the placeholders that a sweeper leaves.
	maxSweep = 24 * time.Hour

	// sweeperWait is how long a second sweeper waits for the first. In that time the
	// first one has ended, or has looked at the whole registry again.
	sweeperWait = 2 * lastRetry
)

// Arguments of runSweeper, before the registry.
const (
	sweeperStart = "start" // start the sweeper in a session of its own
	sweeperRun   = "run"   // be it
)

// StartSweeper starts a sweeper if Close had to leave placeholders that ledgers with another
// registry guard. The program, with argv as the beginning of its command line, calls
// runSweeper. The sweeper is no child of this process.
func (l *Ledger) StartSweeper(program string, argv []string) error {
	l.mu.Lock()
	left := l.left
	l.mu.Unlock()
	if !left {
		return nil
	}
	cmd := sweeperCommand(program, argv, sweeperStart, l.dir)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("start a process that removes placeholders later: %w", err)
	}
	return nil
}

func sweeperCommand(program string, argv []string, verb, dir string) *exec.Cmd {
	cmd := exec.Command(program)
	cmd.Args = append(argv[:len(argv):len(argv)], verb, dir)
	cmd.Dir, cmd.Env = "/", []string{} // it keeps no directory busy, and needs no variable
	return cmd
}

func init() { reexec.Register(reexec.Sweeper, runSweeper) }

// runSweeper is what a sweeper does; args are those of sweeperCommand.
func runSweeper(args []string) int {
	if len(args) != 2 {
		return 2
	}
	switch verb, dir := args[0], args[1]; verb {
	case sweeperStart:
		cmd := sweeperCommand("/proc/self/exe", os.Args[:len(os.Args)-len(args)], sweeperRun, dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil { // it is not waited for: it is to outlive this process
			return 1
		}
	case sweeperRun:
		unix.CloseRange(3, ^uint(0), 0) // whatever an embedding program left open
		ctx, cancel := context.WithTimeout(context.Background(), maxSweep)
		defer cancel()
		if finish(ctx, dir, sweeperWait) != nil {
			return 1
		}
	}
	return 0
}

// finish removes the placeholders of a registry that no server of this user uses, and waits
// for those that others use. If another process does that already, and for longer than
// limit, it leaves it to that.
func finish(ctx context.Context, dir string, limit time.Duration) error {
	l, err := newLedger(dir, slog.New(slog.DiscardHandler))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // with all that was noted there
	}
	if err != nil {
		return err
	}
	l.retrying = true // by this function, not by a goroutine
	defer l.Close()
	lock, err := sweeperLock(dir)
	if err != nil {
		return err
	}
	defer lock.close()
	for until := time.Now().Add(limit); ; {
		if alone, err := lock.lock(filelock.Exclusive); err != nil || !alone && time.Now().After(until) {
			return err
		} else if alone {
			break
		}
		if !pauseFor(ctx, firstRetry) {
			return context.Cause(ctx)
		}
	}
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		if left, err := l.sweepMade(); err != nil || left == 0 {
			return err
		}
		if !pauseFor(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// sweeperLock opens what a sweeper locks, so that there is one for a registry: the directory
// of parked placeholders, which nothing else locks.
func sweeperLock(dir string) (record, error) {
	dir += stashSuffix
	fd, err := at.Openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return record{}, fmt.Errorf("sweep placeholders: %w", err)
	}
	return record{fd, dir}, nil
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// sweepMade is Sweep, but leaves the registry files alone that servers keep for the next use
// of a name. It returns how many placeholders are left: those that other ledgers guard, and
// those whose registry files cannot be opened now.
func (l *Ledger) sweepMade() (left int, err error) {
	files, err := l.registryFiles()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		r, err := openRecord(file, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil { // of this process or of the disk: it can be tried again
			left++
			continue
		}
		if got, err := r.read(); err == nil && got.phase == nothing {
			r.close()
			continue
		}
		if l.retire(r, nil, false) {
			left++
		}
	}
	return left, nil
}
