package placeholder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/internal/reexec"
)

// Sweep removes the placeholders that servers left when they crashed or were killed, and
// those that no sweeper could remove. Open calls it.
func (l *Ledger) Sweep() error {
	files, err := l.registryFiles()
	if err != nil {
		return err
	}
	for _, file := range files {
		l.drop(file)
	}
	l.sweepStash()
	return nil
}

// registryFiles returns the paths of all registry files.
func (l *Ledger) registryFiles() ([]string, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("sweep placeholders: %w", err)
	}
	var files []string
	for _, e := range entries {
		if isRegistryName(e.Name()) && e.Type().IsRegular() {
			files = append(files, filepath.Join(l.dir, e.Name()))
		}
	}
	return files, nil
}

// A sweeper is a process that outlives a server which was closed while ledgers with another
// registry still used its placeholders. It removes each placeholder when it is free. They
// could not always do so: in a directory with the sticky bit, such as /tmp, only the user who
// made a placeholder can remove it.
const (
	// maxSweep is how long a sweeper stays: another user can keep a placeholder locked for
	// ever. The next server removes the placeholders that a sweeper leaves.
	maxSweep = 24 * time.Hour

	// sweeperWait is how long a second sweeper waits for the first. In that time the
	// first one has ended, or has read the whole registry again.
	sweeperWait = 2 * lastRetry
)

// Arguments of runSweeper, before the registry.
const (
	sweeperStart = "start" // start the sweeper in a session of its own, and print its pid
	sweeperRun   = "run"   // run as the sweeper
)

// StartSweeper starts a sweeper if Close left placeholders that ledgers with another
// registry guard. The program, with argv as the beginning of its command line, calls
// runSweeper. The sweeper is not a child of this process. StartSweeper returns its pid, 0 if there is none.
func (l *Ledger) StartSweeper(program string, argv []string) (pid int, err error) {
	l.mu.Lock()
	left := l.left
	l.mu.Unlock()
	if !left {
		return 0, nil
	}
	text, err := sweeperCommand(program, argv, sweeperStart, l.dir).Output()
	if err == nil {
		pid, err = strconv.Atoi(string(text))
	}
	if err != nil {
		return 0, fmt.Errorf("start a process that removes placeholders later: %w", err)
	}
	return pid, nil
}

func sweeperCommand(program string, argv []string, verb, dir string) *exec.Cmd {
	cmd := exec.Command(program)
	cmd.Args = append(argv[:len(argv):len(argv)], verb, dir)
	cmd.Dir, cmd.Env = "/", []string{} // it keeps no directory busy, and needs no variable
	return cmd
}

func init() { reexec.Register(reexec.Sweeper, runSweeper) }

// runSweeper is the main function of a sweeper; args are the arguments that
// sweeperCommand adds.
func runSweeper(args []string) int {
	if len(args) != 2 {
		return 2
	}
	switch verb, dir := args[0], args[1]; verb {
	case sweeperStart:
		cmd := sweeperCommand("/proc/self/exe", os.Args[:len(os.Args)-len(args)], sweeperRun, dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil { // not waited for: it outlives this process
			return 1
		}
		fmt.Print(cmd.Process.Pid)
	case sweeperRun:
		if at.CloseFrom(3) != nil { // descriptors that an embedding program left open
			return 1
		}
		ctx, cancel := context.WithTimeout(context.Background(), maxSweep)
		defer cancel()
		if sweepUntilFree(ctx, dir, sweeperWait) != nil {
			return 1
		}
	}
	return 0
}

// sweepUntilFree removes the placeholders of a registry that no server of this user uses. If
// ledgers with another registry guard some of them, it waits until they are free. If another
// sweeper runs for longer than limit, sweepUntilFree returns and leaves the work to it.
func sweepUntilFree(ctx context.Context, dir string, limit time.Duration) error {
	l, err := newLedger(dir, slog.New(slog.DiscardHandler))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the registry was removed
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

// sweeperLock opens the directory that a sweeper locks, so that there is one sweeper for a
// registry: the stash, which nothing else locks.
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

// sweepMade is Sweep, but ignores the registry files that servers keep for the next use of a
// name. It returns how many placeholders are left: those that other ledgers guard, and those
// whose registry files cannot be opened now.
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
		if err != nil { // an error of this process or of the disk: try again
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
