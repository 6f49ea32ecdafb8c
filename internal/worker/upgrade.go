package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// A StateError means that a program cannot go on with the state of a server.
type StateError struct{ Err error }

func (e *StateError) Error() string { return "the state of the server: " + e.Err.Error() }
func (e *StateError) Unwrap() error { return e.Err }

// ExitStatus tells the keeper why this program does not serve.
func (e *StateError) ExitStatus() int {
	if errors.Is(e.Err, arena.ErrNewer) {
		return keep.ExitOlder
	}
	return keep.ExitUnreadable
}

const (
	// proveAttempts is how often a spare reads the state. The worker changes it meanwhile, so that one reading may find a
	// journal that is being rewritten.
	proveAttempts = 20
	provePause    = 5 * time.Millisecond
)

// takeOver is for a spare: it checks the descriptors of the server, without a change to the state, and waits until it should
// serve.
func takeOver(w *keep.Worker, held []keep.Held, check func(shared map[proc.Which]*os.File) error) ([]keep.Held, keep.Order, error) {
	shared := sharedFiles(held)
	err := check(shared)
	for _, f := range shared {
		f.Close()
	}
	if err == nil {
		err = w.Ready()
	}
	if err != nil {
		return nil, keep.Order{}, err
	}
	held, order, _, err := w.Receive()
	return held, order, err
}

// prove checks that this program can read the state in f, without changing it.
func prove(f *os.File) error {
	if f == nil {
		return &StateError{errors.New("there is none")}
	}
	for attempt := 1; ; attempt++ {
		err := inspect(f)
		if err == nil {
			return nil
		}
		if attempt == proveAttempts {
			return &StateError{err}
		}
		time.Sleep(provePause)
	}
}

// inspect reads the state once.
func inspect(f *os.File) error {
	copied, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(f.Fd()))) // without the right to write
	if err != nil {
		return err
	}
	a, err := arena.Inspect(copied)
	if err != nil {
		copied.Close()
		return err
	}
	_, own, err := readServer(a)
	if err == nil {
		_, err = os.Stat(own)
	}
	if err == nil {
		err = session.CheckJournal(a)
	}
	return errors.Join(err, a.Close())
}

// An upgrader replaces the program of this server.
type upgrader struct {
	worker *keep.Worker

	mu       sync.Mutex
	draining chan struct{} // closed when another worker is about to take over
}

// upgrade asks the keeper for another program.
func (u *upgrader) upgrade(name string) error {
	if name == "" {
		name = os.Args[0]
		if isRunning(name) {
			return fmt.Errorf("the server already runs %s, which has not changed", name)
		}
	}
	if !filepath.IsAbs(name) {
		return fmt.Errorf("%s is not an absolute path", name)
	}
	program, err := keep.OpenProgram(name)
	if err != nil {
		return err
	}
	defer program.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() { // ends with this function
		select {
		case <-u.draining:
			cancel(errDraining)
		case <-stop:
		}
	}()
	if err = u.worker.Upgrade(ctx, program); errors.Is(err, errDraining) {
		return nil
	}
	return err
}

// errDraining means that the new program is about to take over.
var errDraining = errors.New("another worker takes over")

// isRunning reports whether a file is the program that this process executes.
func isRunning(name string) bool {
	there, err := os.Stat(name)
	if err != nil {
		return false
	}
	running, err := os.Stat("/proc/self/exe")
	return err == nil && os.SameFile(there, running) && there.ModTime().Equal(running.ModTime())
}

// drain notes that another worker is about to take over.
func (u *upgrader) drain() {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.draining:
	default:
		close(u.draining)
	}
}

// workers returns a function that tells about the workers of this server.
func workers(order keep.Order) func() wire.KeeperState {
	lastEnd := ""
	if order.Cause != keep.None {
		lastEnd = order.Cause.Describe(order.Detail)
	}
	return func() wire.KeeperState {
		state := wire.KeeperState{Worker: order.Number, WorkerPID: os.Getpid(), KeeperPID: os.Getppid(), Deaths: order.Died, LastEnd: lastEnd}
		keeper, err := os.Stat("/proc/" + strconv.Itoa(state.KeeperPID) + "/exe")
		own, ownErr := os.Stat("/proc/self/exe")
		state.SameProgram = err == nil && ownErr == nil && os.SameFile(keeper, own)
		return state
	}
}
