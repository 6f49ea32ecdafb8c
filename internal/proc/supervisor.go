package proc

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/outlog"
)

// startLimit limits the time from Start to the report that the program was
// executed: a directory on a dead network disk may never answer.
const startLimit = 30 * time.Second

// A Sink receives the events of one process. The process's own goroutines call its
// methods; Append is called by one goroutine per stream.
type Sink interface {
	// Append takes the next output of a stream; it copies p. It may block, and then
	// the child's pipe fills up. After an error the stream is not read any further.
	Append(s outlog.Stream, p []byte) error
	// Exit is called once, when the child itself has exited: 0 to 255, 128+n if
	// signal n ended it, -1 if the system does not say. Output may still follow.
	Exit(code int)
	// Cut is called when a terminated process is closed although its output has not
	// ended: an Append that blocks must return, later ones may return an error.
	Cut()
	// Close is called once, last.
	Close()
}

// A StreamSink is a Sink that is also told when a single stream has ended.
type StreamSink interface {
	Sink
	// EndStream is called once per stream that the process has, after its last Append and before Close:
	// at the end of the output, or when no more of it is read.
	EndStream(s outlog.Stream)
}

// A Filler is a Sink that takes output from the descriptor itself, so that no output is lost
// if this program dies between a read and an Append.
type Filler interface {
	Sink
	// Fills reports whether Fill is to be used instead of Append.
	Fills() bool
	// Fill takes the output that can be read now, and may block as Append does. It returns
	// nil if there may be more, io.EOF at the end, or an error, such as EAGAIN. between is
	// the pipe for the output of a terminal.
	Fill(s outlog.Stream, fd int, between *outlog.Between) (n int, err error)
}

// filler returns the Filler that a sink is; nil: it is none.
func filler(sink Sink) Filler {
	if f, ok := sink.(Filler); ok && f.Fills() {
		return f
	}
	return nil
}

// Config configures a [Supervisor]; the zero value is valid.
type Config struct {
	Log *slog.Logger // nil: no log

	// Subreaper makes orphaned descendants children of this program, reaps them, and
	// kills those that are left at its end. It affects the whole program: only a server
	// should set it.
	Subreaper bool

	// NoCgroups finds descendants in the process table, even where cgroups are
	// available.
	NoCgroups bool

	// Notes is a file that this supervisor creates, for [SweepNotes]: it lists the commands that
	// run without a cgroup, so that another program can kill them if this one is killed. It must
	// be in a directory that only this user can write. "": none. Only on Linux.
	Notes string

	// Groups is a file in which this supervisor records its cgroups, for [SweepGroups]: another program, which may be in
	// another cgroup, can so kill what is in them if this one is killed. "": none. Only on Linux.
	Groups string

	// OwnGroup allows to move this program, and its keeper, into a cgroup of its own, where that is needed to limit
	// commands. Only a program that does nothing else may want that.
	OwnGroup bool

	// Total limits all processes together: memory, processors and processes. [Supervisor.CheckLimits] tells whether
	// that is possible.
	Total Limits

	// Keeper, if any, keeps the processes that have a slot when this program dies. Only on Linux.
	Keeper Keeper
}

// A Spec describes a start. The environment is exactly Env, the descriptors are
// exactly 0 to 2 and Files.
type Spec struct {
	// Argv is the program and its arguments. A bare name is looked up in the PATH
	// of Env, a relative one with a slash is relative to Dir.
	Argv []string
	Arg0 *string // argv[0] of the program, if not Argv[0]
	Dir  string
	Env  []string // NAME=value

	// Owner is for the caller, who can ask for it by [Process.Owner].
	Owner string

	// TTY runs the process on a terminal of its own, of Rows × Cols (0: 24 × 80).
	TTY        bool
	Rows, Cols uint16
	// PipeStdin gives a process without terminal a pipe as stdin instead of
	// /dev/null.
	PipeStdin bool
	// Stdin, if any, is the stdin of a process without terminal, such as one end of
	// a socket. The caller keeps and closes its own. Only on Linux.
	Stdin *os.File
	// OneStream gives a process without terminal one pipe for stdout and stderr, so that
	// the order of its writes is kept. All of it is outlog.Stdout.
	OneStream bool

	// Files become descriptors 3, 4, …, blocking or not as they are. The caller
	// keeps and closes its own.
	Files []*os.File

	// Launcher, if any, is started in place of the command and runs it.
	Launcher *Launcher

	// Listeners are the sockets on which this program serves the process. With a slot they survive this
	// program as long as the process is open. The caller keeps and closes its own.
	Listeners []*os.File

	// LateOutput is how long after a failure the exit waits for the output to end, so
	// that the code that explains the failure has seen all of it. Successes do not wait.
	// Output that was written before the exit is passed to the sink before it in any
	// case, unless the sink is full.
	LateOutput time.Duration

	// Exited is called once with the code of [Sink.Exit], when the sink has it; nil: it is not called. It must return at once.
	Exited func(code int)

	// Limits are those of the process with everything that it starts. If one cannot be enforced, the start fails, unless
	// BestEffort is set.
	Limits     Limits
	BestEffort bool

	// Slot, if any, is where the process is recorded, so that [Supervisor.Adopt] of another program
	// can take it over if this one dies. Its sink must be a Filler. It belongs to the process
	// until [Process.Release] has called back, or if Start fails, until [Supervisor.Discard].
	Slot *arena.Slot

	between *outlog.Between // for the terminal of a Filler; nil: none
}

// A Supervisor starts processes and owns them until they and everything that they
// started are gone.
type Supervisor struct {
	config   Config
	log      *slog.Logger
	makeHost sync.Once     // sets host, unless Close comes first
	host     *host         // the system-specific part; nil: no start has needed it
	grace    time.Duration // terminateGrace
	fullSink time.Duration // fullSinkWait
	stuck    time.Duration // stuckWait
	lifetime context.Context
	end      context.CancelCauseFunc
	tasks    sync.WaitGroup // every goroutine of every process
	starts   sync.WaitGroup // every Start that is running

	closeHost sync.Once

	pipeBudget atomic.Int64 // bytes by which pipes may still grow

	mu        sync.Mutex
	closed    bool
	processes map[*Process]struct{} // not yet settled: open, or with leftovers
	hanging   map[*arena.Slot]bool  // slots that a start writes to; true: to be freed after it
	settling  *time.Timer           // the next check for leftovers; nil unless there are any
	settleDue time.Time             // when that check happens
}

// New makes a supervisor. Close ends everything that it started.
func New(cfg Config) *Supervisor {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	lifetime, end := context.WithCancelCause(context.Background())
	s := &Supervisor{
		config:    cfg,
		log:       cfg.Log,
		grace:     terminateGrace,
		fullSink:  fullSinkWait,
		stuck:     stuckWait,
		lifetime:  lifetime,
		end:       end,
		processes: make(map[*Process]struct{}),
	}
	s.pipeBudget.Store(pipeGrowthTotal)
	return s
}

// Prepare makes in the background what every start needs: control groups, threads that fork,
// the adoption of orphans. Without it the first start makes them.
func (s *Supervisor) Prepare() {
	if s.beginStart() {
		go func() { // Close waits for starts
			defer s.starts.Done()
			s.needHost()
		}()
	}
}

// needHost returns the system-specific part. It is made by the first call.
func (s *Supervisor) needHost() *host {
	s.makeHost.Do(func() { s.host = newHost(s) })
	return s.host
}

// beginStart reports whether something may still be started. If so, Close waits for
// starts.Done.
func (s *Supervisor) beginStart() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.starts.Add(1)
	}
	return !s.closed
}

// Start runs spec and returns once its program has been executed, or with the
// reason why it was not. ctx limits only the start: the process does not end with
// it.
func (s *Supervisor) Start(ctx context.Context, spec Spec, sink Sink) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	if !s.beginStart() {
		return nil, ErrClosed
	}
	defer s.starts.Done()

	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, ErrStartTimeout)
	defer cancel()
	ctx, cancelCause := context.WithCancelCause(ctx)
	defer cancelCause(nil)
	defer context.AfterFunc(s.lifetime, func() { cancelCause(ErrClosed) })()

	if spec.TTY && filler(sink) != nil {
		var err error
		if spec.between, err = newBetween(); err != nil {
			return nil, err
		}
	}
	c, err := s.needHost().launch(ctx, spec)
	if err != nil {
		closeBetween(spec.between)
		return nil, err
	}
	var confirmErr error
	if spec.Launcher != nil {
		if c.launched, confirmErr = spec.Launcher.Confirm(ctx, c.kept.reported); confirmErr != nil {
			sink = new(Capture) // the command was never executed, so the caller's sink gets no events
		}
	}
	c.kept.running()
	p := newProcess(s, c, spec, sink)
	s.add(p)
	p.limitTime()
	s.tasks.Go(p.run) // ends when the child has exited and its output has ended
	if confirmErr != nil {
		p.Kill()
		if spec.Slot != nil && p.Leftovers() {
			s.hangs(spec.Slot) // for ever: the process still uses it
		}
		return nil, confirmErr
	}
	return p, nil
}

func (s *Supervisor) add(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes[p] = struct{}{}
}

// Adopt takes over a process that another program has started and recorded in a slot. It returns
// ErrNeverStarted if the program of the process was never executed. The descriptors belong to the
// process, or are closed.
func (s *Supervisor) Adopt(ctx context.Context, a Adoption) (*Process, error) {
	defer a.close()
	if !s.beginStart() {
		return nil, ErrClosed
	}
	defer s.starts.Done()
	h := s.needHost()
	c, err := h.adopt(ctx, &a)
	if err != nil {
		h.discardTree(a.Spec.Slot)
		return nil, err
	}
	p := newProcess(s, c, a.Spec, a.Sink)
	p.startedAt, p.timedOut = time.Unix(0, int64(a.Spec.Slot.StartedAt.Load())), a.Spec.Slot.Ending.Load() == endingTime
	s.add(p)
	buried := a.Spec.Slot.State.Load() == slotBuried
	p.lost = buried && a.Spec.Slot.Ending.Load() == endingLost
	if c.gone() {
		p.code, _ = c.kept.exitCode()
		p.state = exited // there is no process that could be signalled
	}
	if a.Closed {
		p.state, p.released = closed, true
		p.code, _ = c.kept.exitCode()
		p.usage.figures, p.usage.known = c.kept.usage()
		close(p.done)
		if len(a.Files) > 0 {
			c.kept.free() // as close of an earlier program would have done
		}
		p.limitTime()
		s.settleWithin(settleSoon)
		return p, nil
	}
	if !buried {
		p.limitTime()
	}
	s.tasks.Go(p.run) // as after Start
	if a.Spec.Slot.Ending.Load() != 0 && !buried {
		p.terminate(true)
	}
	return p, nil
}

// Close kills every process with everything that it started and returns when the last goroutine
// has ended. Closing twice is harmless. A Sink whose Append blocks must be ended first.
func (s *Supervisor) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(ErrClosed)
	s.starts.Wait()

	left := s.Processes()
	for _, p := range left {
		p.terminate(true)
	}
	for _, p := range left {
		<-p.done
	}
	s.settle() // most have left no processes
	for _, p := range s.Processes() {
		p.Kill()
	}
	s.mu.Lock()
	s.stopSettlingLocked()
	s.mu.Unlock()
	for _, p := range s.Processes() {
		p.stopTime()
	}
	s.tasks.Wait()
	s.makeHost.Do(func() {}) // from now on none is made
	if s.host != nil {
		s.closeHost.Do(s.host.close)
	}
}

// Processes returns the processes that are not settled: they run, or may have left
// others running.
func (s *Supervisor) Processes() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Process, 0, len(s.processes))
	for p := range s.processes {
		list = append(list, p)
	}
	return list
}

// Leftovers are processes that a closed process started and left running, such as a
// server put into the background with its output redirected. The first check comes
// soon after the close, since most processes leave none. Later checks are rare.
const (
	settleSoon  = time.Second
	settleLater = 30 * time.Second
)

// settleWithin schedules a check for leftovers, unless an earlier one is due.
func (s *Supervisor) settleWithin(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := time.Now().Add(d)
	if s.closed || s.settling != nil && s.settleDue.Before(due) {
		return
	}
	s.stopSettlingLocked()
	s.settleDue = due
	s.tasks.Add(1) // until the timer has fired or was stopped
	s.settling = time.AfterFunc(d, func() {
		defer s.tasks.Done()
		s.mu.Lock()
		s.settling = nil
		s.mu.Unlock()
		s.settle()
	})
}

func (s *Supervisor) stopSettlingLocked() {
	if s.settling != nil && s.settling.Stop() {
		s.tasks.Done()
	}
	s.settling = nil
}

// settle forgets the closed processes that left no others.
func (s *Supervisor) settle() {
	list := s.Processes()                               // before the search: a process that closes later is found by the next one
	view := tableView(sync.OnceValue(readProcessTable)) // one search for all, if any needs it
	left := false
	for _, p := range list {
		if p.isClosed() && !p.settle(view) {
			left = true
		}
	}
	if left {
		s.settleWithin(settleLater)
	}
}

func (s *Supervisor) forget(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.processes, p)
}
