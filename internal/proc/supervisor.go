package proc

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
)

// startLimit bounds the time from Start to the report that the program was
// executed: a directory on a dead network disk answers never.
const startLimit = 30 * time.Second

// A Sink is where the events of one process go. Its methods are called from the
// process's own goroutines; Append from one per stream.
type Sink interface {
	// Append takes the next output of a stream; it copies p. It may block, and
	// then the child feels a full pipe. An error means: stop reading.
	Append(s outlog.Stream, p []byte) error
	// Exit is called once, when the child itself has exited: 0 to 255, 128+n if
	// signal n ended it, -1 if the system does not say. Output may still follow.
	Exit(code int)
	// Cut is called when a terminated process is to be closed although its output
	// has not ended: an Append that blocks must return, later ones may refuse.
	Cut()
	// Close is called once, last.
	Close()
}

// A StreamSink is a Sink that wants to know when a single stream has ended.
type StreamSink interface {
	Sink
	// EndStream is called once per stream that the process has, after its last Append and before Close:
	// at the end of the output, or when no more of it is read.
	EndStream(s outlog.Stream)
}

// Config says how a [Supervisor] works; the zero value is fine.
type Config struct {
	Log *slog.Logger // nil: no log

	// Subreaper makes orphaned descendants children of this program, reaps them, and
	// kills those that are left at its end. It is an attribute of the whole program: only
	// a server should set it.
	Subreaper bool

	// NoCgroups finds what a process started by looking through the process
	// table, even where a cgroup could tell exactly.
	NoCgroups bool

	// Notes is a file that this supervisor creates, for [SweepNotes]: it names the commands that
	// run without a cgroup, so that another program can end them if this one is killed. It
	// must be in a directory that only this user can write. "": none. Only on Linux.
	Notes string
}

// A Spec says what to start. The environment is exactly Env, the descriptors are
// exactly 0 to 2 and Files.
type Spec struct {
	// Argv is the program and its arguments. A bare name is looked up in the PATH
	// of Env, a relative one with a slash is relative to Dir.
	Argv []string
	Arg0 *string // what the program sees as argv[0], if not Argv[0]
	Dir  string
	Env  []string // NAME=value

	// TTY runs the process on a terminal of its own, of Rows × Cols (0: 24 × 80).
	TTY        bool
	Rows, Cols uint16
	// PipeStdin gives a process without terminal a pipe as stdin, not /dev/null.
	PipeStdin bool
	// Stdin, if any, is the stdin of a process without terminal, such as one end of
	// a socket; the caller keeps and closes its own. Only on Linux.
	Stdin *os.File
	// OneStream gives a process without terminal one pipe for stdout and stderr, so that
	// what it writes to both keeps its order. All of it is outlog.Stdout.
	OneStream bool

	// Files become descriptors 3, 4, …, blocking or not as they are; the caller
	// keeps and closes its own.
	Files []*os.File

	// Launcher, if any, is started in place of the command and runs it.
	Launcher *Launcher

	// LateOutput is how long after a failure the exit waits for the output to end,
	// so that whoever judges the failure has seen it. Successes do not wait. What was
	// written before the exit is in the sink before it in any case, unless that is full.
	LateOutput time.Duration
}

// A Supervisor starts processes and owns them until they and all that they
// started are gone.
type Supervisor struct {
	log      *slog.Logger
	ready    chan struct{} // closed when host is set
	host     *host         // what the operating system adds
	grace    time.Duration // terminateGrace
	fullSink time.Duration // fullSinkWait
	lifetime context.Context
	end      context.CancelCauseFunc
	tasks    sync.WaitGroup // every goroutine of every process
	starts   sync.WaitGroup // every Start under way

	closeHost sync.Once

	pipeBudget atomic.Int64 // bytes by which pipes may still grow

	mu        sync.Mutex
	closed    bool
	processes map[*Process]struct{} // not yet settled: open, or with leftovers
	settling  *time.Timer           // the next look at leftovers; nil unless there are any
	settleDue time.Time             // when it comes
}

// New makes a supervisor. Close it to end all that it started.
func New(cfg Config) *Supervisor {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	lifetime, end := context.WithCancelCause(context.Background())
	s := &Supervisor{
		log:       cfg.Log,
		ready:     make(chan struct{}),
		grace:     terminateGrace,
		fullSink:  fullSinkWait,
		lifetime:  lifetime,
		end:       end,
		processes: make(map[*Process]struct{}),
	}
	s.pipeBudget.Store(pipeGrowthTotal)
	// In the background: a server can have its address out meanwhile.
	s.tasks.Go(func() {
		defer close(s.ready)
		s.host = newHost(cfg)
	})
	return s
}

// Start runs spec and returns once its program has been executed, or with the
// reason why it could not. The process does not end with ctx, only the start does.
func (s *Supervisor) Start(ctx context.Context, spec Spec, sink Sink) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	s.starts.Add(1)
	s.mu.Unlock()
	defer s.starts.Done()

	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, ErrStartTimeout)
	defer cancel()
	ctx, cancelCause := context.WithCancelCause(ctx)
	defer cancelCause(nil)
	defer context.AfterFunc(s.lifetime, func() { cancelCause(ErrClosed) })()

	<-s.ready
	c, err := s.host.launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	var confirmErr error
	if spec.Launcher != nil {
		if c.launched, confirmErr = spec.Launcher.Confirm(ctx); confirmErr != nil {
			sink = new(Capture) // it did not get to the command
		}
	}
	p := newProcess(s, c, spec, sink)
	s.mu.Lock()
	s.processes[p] = struct{}{}
	s.mu.Unlock()
	s.tasks.Go(p.run) // ends when the child has exited and its output has ended
	if confirmErr != nil {
		p.Kill()
		return nil, confirmErr
	}
	return p, nil
}

// Close kills every process with all that it started and returns when the last
// goroutine has ended. A second time is harmless. A Sink whose Append blocks must be ended first.
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
	s.settle() // most have left nothing
	for _, p := range s.Processes() {
		p.Kill()
	}
	s.mu.Lock()
	s.stopSettlingLocked()
	s.mu.Unlock()
	s.tasks.Wait()
	s.closeHost.Do(s.host.close)
}

// Processes returns those of which something is left, or may be.
func (s *Supervisor) Processes() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Process, 0, len(s.processes))
	for p := range s.processes {
		list = append(list, p)
	}
	return list
}

// Leftovers are what a closed process started and left running, such as a server
// put into the background with its output redirected. They are looked after soon
// after the close, since most processes leave nothing, and then seldom.
const (
	settleSoon  = time.Second
	settleLater = 30 * time.Second
)

// settleWithin arranges a look at the leftovers, unless an earlier one is due.
func (s *Supervisor) settleWithin(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := time.Now().Add(d)
	if s.closed || s.settling != nil && s.settleDue.Before(due) {
		return
	}
	s.stopSettlingLocked()
	s.settleDue = due
	s.tasks.Add(1) // until it has fired or was stopped
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

// settle forgets the closed processes that left nothing behind.
func (s *Supervisor) settle() {
	list := s.Processes()                               // before the look: who closes later is seen by the next one
	view := tableView(sync.OnceValue(readProcessTable)) // one look for all, if any needs it
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
