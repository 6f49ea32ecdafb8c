package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/account"
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
	heldSettings proc.Which = 4
)

// noteServer is the kind of the note about the server itself: its directories.
const noteServer arena.NoteKind = 16

// A State is what the workers of a server share, before the first of them is started.
type State struct {
	listener *os.File      // the socket on which the server listens
	arena    *arena.Arena  // nil: nothing but the socket is kept
	dir      *statedir.Dir // nil: likewise
	taken    bool          // it is what an earlier server has left

	Notice *os.File // for the keeper's last error; nil: none
}

// NewListener is NewState for a server that keeps nothing but its socket.
func NewListener(listener *os.File) *State { return &State{listener: listener} }

// NewState makes the state of a new server. A durable one goes on with what an earlier one has left. The listener belongs to the
// caller.
func NewState(cfg server.Config, listener *os.File) (*State, error) {
	dir, err := cfg.OpenState()
	if err != nil {
		return nil, err
	}
	s := &State{listener: listener, dir: dir}
	if err := s.make(cfg.WithDefaults().Log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *State) make(log *slog.Logger) (err error) {
	if s.dir.Durable() {
		err = s.openDurable(log)
	} else {
		s.arena, err = arena.Create(arena.Config{})
	}
	if err != nil {
		return err
	}
	exclusive := os.O_EXCL
	if s.dir.Durable() {
		exclusive = os.O_TRUNC // an earlier server has left one
	}
	if s.Notice, err = os.OpenFile(s.dir.Notice(), os.O_CREATE|os.O_RDWR|exclusive, 0o600); err != nil {
		return err
	}
	if s.taken {
		return nil
	}
	var e reexec.Encoder
	e.Text(s.dir.Shared)
	e.Text(s.dir.Own)
	_, err = s.arena.Journal().Append(noteServer, e)
	return err
}

// Held lists the descriptors for the keeper.
func (s *State) Held() []keep.Held {
	held := []keep.Held{{Slot: keep.Shared, Which: int32(heldListener), FD: int(s.listener.Fd())}}
	if s.arena == nil {
		return held
	}
	return append(held,
		keep.Held{Slot: keep.Shared, Which: int32(heldArena), FD: int(s.arena.File().Fd())},
		keep.Held{Slot: keep.Shared, Which: int32(heldState), FD: int(s.dir.Lock().Fd())})
}

// Close gives the state up, if no worker was started.
func (s *State) Close() (err error) {
	switch {
	case s.taken:
		err = s.dir.Abandon()
	case s.dir != nil:
		err = s.dir.Close()
	}
	if s.arena != nil {
		err = errors.Join(err, s.arena.Close())
	}
	if s.Notice != nil {
		err = errors.Join(err, s.Notice.Close())
	}
	return err
}

// Events are what a worker is told while it serves. They must not wait.
type Events struct {
	Drain func(within time.Duration) // another worker takes over; this one is killed after this time
	Lost  func(error)                // the keeper is gone: end everything

	Reload func() // read the settings again
}

// A Door is what a worker needs for its listener.
type Door struct {
	Socket   *os.File
	Settings []string // what an earlier worker has passed to KeepSettings; nil: none has
}

// doorOf returns the Door among the descriptors of the server.
func doorOf(shared map[proc.Which]*os.File) (d Door, err error) {
	if d.Socket = shared[heldListener]; d.Socket == nil {
		return d, &StateError{errors.New("the keeper has no listener for this server")}
	}
	if f := shared[heldSettings]; f != nil {
		d.Settings, err = readSettings(f)
	}
	return d, err
}

// maxSettings limits the settings that are passed on. A configuration file is smaller.
const maxSettings = 1 << 20

// readSettings reads what KeepSettings has written.
func readSettings(f *os.File) ([]string, error) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxSettings))
	if err != nil {
		return nil, &StateError{fmt.Errorf("read the settings of the server: %w", err)}
	}
	d := reexec.Decode(text)
	list := append([]string{}, d.List()...)
	if !d.Done() {
		return nil, &StateError{errors.New("the settings of the server are damaged")}
	}
	return list, nil
}

// KeepSettings passes settings on to the workers that follow, in place of earlier ones.
func KeepSettings(w *keep.Worker, list []string) error {
	var e reexec.Encoder
	e.List(list)
	if len(e) > maxSettings {
		return fmt.Errorf("limit reached: %d bytes of settings", maxSettings)
	}
	f, err := memoryFile(e)
	if err != nil {
		return fmt.Errorf("write the settings to memory: %w", err)
	}
	defer f.Close()
	return w.Hold(keep.Held{Slot: keep.Shared, Which: int32(heldSettings), FD: int(f.Fd())})
}

// Receive returns what the keeper has for this worker, and for its listener. A spare proves that it can read
// the state, and waits until it should serve; prepare is called before that.
func Receive(w *keep.Worker, log *slog.Logger, prepare func(Door) error, events Events) (*server.Kept, Door, error) {
	held, order, err := receive(w, log, func(shared map[proc.Which]*os.File) error {
		if err := prove(shared[heldArena]); err != nil {
			return err
		}
		return prepareDoor(shared, prepare)
	})
	if err != nil {
		return nil, Door{}, err
	}
	u := &upgrader{worker: w, draining: make(chan struct{})}
	own := &keeper{worker: w, pid: os.Getppid(), log: log}
	k := &server.Kept{
		Keeper: own, Held: session.Descriptors{}, First: order.Number == 1,
		Deaths: order.Deaths, Beat: order.Beat, Probation: time.Now().Add(order.Probation), Workers: workers(order), Upgrade: u.upgrade, Leave: w.Leave,
	}
	shared := sharedFiles(held)
	for _, h := range held {
		if h.Slot == keep.Shared {
			continue
		}
		number := int(h.Slot)
		if k.Held[number] == nil {
			k.Held[number] = map[proc.Which]*os.File{}
		}
		k.Held[number][proc.Which(h.Which)] = os.NewFile(uintptr(h.FD), "kept")
	}
	door, err := doorOf(shared)
	if err != nil {
		return nil, door, err
	}
	if err := open(k, shared); err != nil {
		return nil, door, &StateError{err}
	}
	if k.State.Durable() {
		k.First, own.durable = false, true
	}
	shared[heldSettings].Close() // it may be nil
	for _, which := range []proc.Which{heldListener, heldArena, heldState, heldSettings} {
		delete(shared, which)
	}
	k.Held[0] = shared
	w.Serve(keep.Events{
		Ended:  func(pids []int) { reapUnclaimed(k, pids) },
		Missed: missed(log),
		Drain: func(within time.Duration) {
			u.drain()
			events.Drain(within)
		},
		Reload: events.Reload, Lost: events.Lost,
	})
	return k, door, nil
}

func prepareDoor(shared map[proc.Which]*os.File, prepare func(Door) error) error {
	door, err := doorOf(shared)
	if err != nil {
		return err
	}
	return prepare(door)
}

// ReceiveListener is Receive for a server that keeps nothing but its socket.
func ReceiveListener(w *keep.Worker, log *slog.Logger, prepare func(Door) error, events Events) (door Door, order keep.Order, err error) {
	held, order, err := receive(w, log, func(shared map[proc.Which]*os.File) error { return prepareDoor(shared, prepare) })
	if err != nil {
		return door, order, err
	}
	shared := sharedFiles(held)
	if door, err = doorOf(shared); err != nil {
		return door, order, err
	}
	shared[heldSettings].Close() // it may be nil
	w.Serve(keep.Events{
		Ended: func(pids []int) { // none is a command: these are children of the worker
			for _, pid := range pids {
				w.Reap(pid) // without a keeper the server ends
			}
		},
		Missed: missed(log), Drain: events.Drain, Reload: events.Reload, Lost: events.Lost,
	})
	return door, order, nil
}

// receive returns the keeper's order to serve, with the descriptors. A spare first calls check with those of the server,
// and waits until it should serve.
func receive(w *keep.Worker, log *slog.Logger, check func(shared map[proc.Which]*os.File) error) ([]keep.Held, keep.Order, error) {
	held, order, spare, err := w.Receive()
	if err == nil && spare {
		held, order, err = takeOver(w, held, check)
	}
	if err != nil {
		return nil, order, err
	}
	crash.Worker(order.Number)
	if order.Number > 1 {
		log.Warn("the server goes on after its worker has ended", "reason", order.Cause.Describe(order.Detail))
	}
	return held, order, nil
}

// sharedFiles returns the descriptors that belong to the server as a whole.
func sharedFiles(held []keep.Held) map[proc.Which]*os.File {
	shared := map[proc.Which]*os.File{}
	for _, h := range held {
		if h.Slot == keep.Shared {
			shared[proc.Which(h.Which)] = os.NewFile(uintptr(h.FD), "kept")
		}
	}
	return shared
}

// missed logs that the keeper cannot hold a descriptor.
func missed(log *slog.Logger) func(slot, which int32) {
	return func(slot, which int32) {
		log.Error("the keeper cannot hold a descriptor", "slot", slot, "which", which)
	}
}

// open opens the state that earlier workers have left.
func open(k *server.Kept, shared map[proc.Which]*os.File) (err error) {
	if shared[heldListener] == nil || shared[heldArena] == nil || shared[heldState] == nil {
		return errors.New("the keeper has no listener or no state for this server")
	}
	if k.Arena, err = arena.Open(shared[heldArena]); err != nil {
		return err
	}
	common, own, err := readServer(k.Arena)
	k.State = statedir.Adopt(common, own, shared[heldState])
	return err
}

// readServer returns the directories in the note about the server.
func readServer(a *arena.Arena) (common, own string, err error) {
	err = a.Journal().Replay(func(_ *arena.Note, kind arena.NoteKind, payload []byte) error {
		switch {
		case kind == noteServer:
			d := reexec.Decode(payload)
			common, own = d.Text(), d.Text()
			if !d.Done() {
				return fmt.Errorf("note about the server is %w", arena.ErrDamaged)
			}
		case kind&^arena.Skippable >= noteServer: // smaller ones belong to package session
			return arena.ErrUnknownKind
		}
		return nil
	})
	if err == nil && own == "" {
		err = fmt.Errorf("%w: nothing is recorded about the server", arena.ErrDamaged)
	}
	return common, own, err
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

	durable bool // the next server goes on if the keeper dies
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
	err := k.worker.Hold(list...)
	k.endWith(err)
	return err
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

// endWith does not return if a durable server has lost its keeper: this program is about to end, and must neither tell a client nor
// record what has become of a request because of that. The next server goes on.
func (k *keeper) endWith(err error) {
	if k.durable && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || err != nil && k.worker.Orphaned()) {
		select {}
	}
}

// check logs that a message has not reached the keeper: it is gone, and this program will end.
func (k *keeper) check(err error) {
	if err != nil {
		k.log.Debug("the keeper does not answer", "err", err)
	}
}

// Status implements proc.Keeper.
func (k *keeper) Status(pid int) (code int, used *account.Figures, ended bool) {
	exit, err := k.worker.Status(context.Background(), pid)
	k.endWith(err)
	if err != nil || !exit.Child {
		return -1, nil, err == nil // a process that is no child of the keeper was reaped before
	}
	return exit.Status, exit.Used, exit.Ended
}

// Pid implements proc.Keeper.
func (k *keeper) Pid() int { return k.pid }
