package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/internal/statedir"
)

// The descriptors that the keeper holds for the server as a whole. The numbers are the same in all
// versions; package proc has others.
const (
	heldListener proc.Which = 1
	heldArena    proc.Which = 2
	heldState    proc.Which = 3
)

// noteServer is the kind of the note about the server itself: its directories.
const noteServer arena.NoteKind = 16

// A State is what the workers of a server share, before the first of them is started.
type State struct {
	listener *os.File // the socket on which the server listens
	arena    *arena.Arena
	dir      *statedir.Dir
}

// NewState makes the state of a new server. The listener belongs to the caller.
func NewState(cfg server.Config, listener *os.File) (*State, error) {
	dir, err := cfg.OpenState()
	if err != nil {
		return nil, err
	}
	s := &State{listener: listener, dir: dir}
	if s.arena, err = arena.Create(arena.Config{}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	var e reexec.Encoder
	e.Text(dir.Shared)
	e.Text(dir.Own)
	if _, err := s.arena.Journal().Append(noteServer, e); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Held lists the descriptors for the keeper.
func (s *State) Held() []keep.Held {
	return []keep.Held{
		{Slot: keep.Shared, Which: int32(heldListener), FD: int(s.listener.Fd())},
		{Slot: keep.Shared, Which: int32(heldArena), FD: int(s.arena.File().Fd())},
		{Slot: keep.Shared, Which: int32(heldState), FD: int(s.dir.Lock().Fd())},
	}
}

// Close gives the state up, if no worker was started.
func (s *State) Close() error {
	err := s.dir.Close()
	if s.arena != nil {
		err = errors.Join(err, s.arena.Close())
	}
	return err
}

// Receive returns what the keeper has for this worker, and the socket on which it listens. lost is called when
// the keeper is gone.
func Receive(w *keep.Worker, log *slog.Logger, lost func(error)) (*server.Kept, *os.File, error) {
	held, order, prove, err := w.Receive()
	if err == nil && prove {
		held, order, err = takeOver(w, held)
	}
	if err != nil {
		return nil, nil, err
	}
	crash.Worker(order.Number)
	if order.Number > 1 {
		log.Warn("the server goes on after its worker has ended", "reason", order.Cause.String(), "status", order.Detail)
	}
	k := &server.Kept{Keeper: &keeper{worker: w, pid: os.Getppid(), log: log}, Held: session.Descriptors{}, First: order.Number == 1}
	shared := map[proc.Which]*os.File{}
	for _, h := range held {
		which := proc.Which(h.Which)
		if h.Slot == keep.Shared {
			shared[which] = os.NewFile(uintptr(h.FD), "kept")
			continue
		}
		number := int(h.Slot)
		if k.Held[number] == nil {
			k.Held[number] = map[proc.Which]*os.File{}
		}
		k.Held[number][which] = os.NewFile(uintptr(h.FD), "kept")
	}
	if err := open(k, shared); err != nil {
		return nil, nil, err
	}
	w.Serve(keep.Events{
		Ended: func(pids []int) { reapUnclaimed(k, pids) },
		Missed: func(slot, which int32) {
			log.Error("the keeper cannot hold a descriptor", "slot", slot, "which", which)
		},
		Drain: func(time.Duration) { os.Exit(0) }, // the next worker goes on where this one ends, as after a death
		Lost:  lost,
	})
	return k, shared[heldListener], nil
}

// takeOver is for a worker that waits ready to replace another one. It checks that it can read the
// state.
func takeOver(w *keep.Worker, held []keep.Held) ([]keep.Held, keep.Order, error) {
	var err error
	for _, h := range held {
		f := os.NewFile(uintptr(h.FD), "kept")
		if h.Slot != keep.Shared || proc.Which(h.Which) != heldArena || err != nil {
			f.Close()
			continue
		}
		var a *arena.Arena
		if a, err = arena.Inspect(f); err == nil {
			err = a.Close()
		} else {
			f.Close()
		}
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

// open opens the state that earlier workers have left.
func open(k *server.Kept, shared map[proc.Which]*os.File) (err error) {
	if shared[heldListener] == nil || shared[heldArena] == nil || shared[heldState] == nil {
		return errors.New("the keeper has no listener or no state for this server")
	}
	if k.Arena, err = arena.Open(shared[heldArena]); err != nil {
		return err
	}
	return k.Arena.Journal().Replay(func(_ *arena.Note, kind arena.NoteKind, payload []byte) error {
		if kind != noteServer {
			return nil
		}
		d := reexec.Decode(payload)
		k.State = statedir.Adopt(d.Text(), d.Text(), shared[heldState])
		if !d.Done() {
			return fmt.Errorf("note about the server is %w", arena.ErrDamaged)
		}
		return nil
	})
}

// reapUnclaimed reaps children of the keeper that are no commands: orphans of commands, and helpers of
// earlier workers.
func reapUnclaimed(k *server.Kept, pids []int) {
	claimed := proc.Claimed(k.Arena)
	for _, pid := range pids {
		if !claimed[pid] {
			k.Keeper.Reap(pid)
		}
	}
}

// keeper lets package proc talk to the keeper.
type keeper struct {
	worker *keep.Worker
	pid    int
	log    *slog.Logger
}

// slotOf is the keeper's slot for a number of package proc.
func slotOf(number int) int32 {
	if number == 0 {
		return keep.Shared
	}
	return int32(number)
}

// Hold implements proc.Keeper.
func (k *keeper) Hold(number int, held ...proc.Held) error {
	list := make([]keep.Held, len(held))
	for i, h := range held {
		list[i] = keep.Held{Slot: slotOf(number), Which: int32(h.Which), FD: h.FD}
	}
	return k.worker.Hold(list...)
}

// Drop implements proc.Keeper.
func (k *keeper) Drop(number int, which proc.Which) {
	k.check(k.worker.Drop(slotOf(number), int32(which)))
}

// Free implements proc.Keeper.
func (k *keeper) Free(number int) {
	k.check(k.worker.Free(slotOf(number)))
}

// Reap implements proc.Keeper.
func (k *keeper) Reap(pid int) {
	k.check(k.worker.Reap(pid))
}

// check logs that a message has not reached the keeper: it is gone, and this program will end.
func (k *keeper) check(err error) {
	if err != nil {
		k.log.Debug("the keeper does not answer", "err", err)
	}
}

// Status implements proc.Keeper.
func (k *keeper) Status(pid int) (code int, ended bool) {
	exit, err := k.worker.Status(context.Background(), pid)
	if err != nil || !exit.Child {
		return -1, err == nil // a process that is no child of the keeper was reaped before
	}
	return exit.Status, exit.Ended
}

// Pid implements proc.Keeper.
func (k *keeper) Pid() int { return k.pid }
