package terminal

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

const (
	// outputGrace is how long a session waits for more output after the command has exited: a
	// process in the background may hold the output open.
	outputGrace = 2 * time.Second

	// giveUpGrace is how long a command may take to end after its timeout.
	giveUpGrace = 10 * time.Second

	// sendTimeout bounds the request for a signal or a new size; later it would be out of date.
	sendTimeout = time.Minute
)

// A Process is a command that runs on a server.
type Process interface {
	Signal(ctx context.Context, name string) error
	Resize(ctx context.Context, rows, cols int) error
	Terminate(ctx context.Context) (running bool, err error)
}

// Events returns the events of a command, in order.
type Events interface {
	Next(context.Context) (client.Event, error)
}

// A Session connects the standard streams of this program, which may be a terminal, with a
// command. Its methods are called by one goroutine.
type Session struct {
	Status   *StatusLine
	Timeout  time.Duration // after this time the command is terminated; 0: never
	Guest    bool          // the command is another client's: it runs on when this session ends
	Watching bool          // signals end this session and are not passed on to the command

	stdin, stdout *os.File
	stderr        io.Writer
	tty           bool // the command has a terminal
	raw           bool // the user's terminal is in raw mode
	connected     func() bool
	newest        func(context.Context) (seq uint64, err error) // the newest event of the command on the server
	exited        atomic.Bool                                   // the command has exited
}

// NewSession makes a session of these standard streams. tty says that the command has a terminal,
// typing that it gets standard input.
func NewSession(stdin, stdout *os.File, stderr io.Writer, tty, typing bool, status *StatusLine) *Session {
	s := &Session{stdin: stdin, stdout: stdout, stderr: stderr, tty: tty, Status: status}
	s.raw = tty && typing && Is(stdin) && Is(stdout)
	status.SetRaw(s.raw)
	return s
}

// On says which command the session is about. session is the public id of the command's session.
func (s *Session) On(c *client.Client, session, process string) {
	s.connected = func() bool { return c.Status().State == client.Connected }
	s.newest = func(ctx context.Context) (uint64, error) {
		all, err := c.Processes(ctx, session)
		if err != nil {
			return 0, err
		}
		for _, p := range all {
			if p.ProcessID == process {
				return p.NextSeq - 1, nil
			}
		}
		return 0, client.ErrUnknownProcess
	}
}

// Connected reports whether the server can be reached at the moment.
func (s *Session) Connected() bool { return s.connected() }

// Size returns the size of the user's terminal, or zero if the command does not get it.
func (s *Session) Size() (rows, cols int) {
	if !s.raw {
		return 0, 0
	}
	r, c := Size(s.stdout)
	return int(r), int(c)
}

// EndLine moves the cursor of the user's terminal to the beginning of a new line, because the
// command may have left it anywhere.
func (s *Session) EndLine() {
	if s.raw {
		io.WriteString(s.stderr, "\r\n")
	}
}

// An Ending is why a session has ended.
type Ending struct {
	Code    int
	Exited  bool   // Code is the exit code of the command
	Failure string // why Code is not the command's own; "": it is
	Timeout bool
	Err     error // the command, or its output, was lost
	Output  error // the output of this program cannot be written
	Left    error // the user has left: ErrEscape, a SignalError or ErrUnreachable
}

// ErrUnreachable means, together with a SignalError, that the signal could not be passed on.
var ErrUnreachable = errors.New("the server cannot be reached; the command may run on until the server ends this session")

// An Input says where the bytes of standard input go.
type Input struct {
	To     io.Writer
	Close  func() error // passes on the end of the input; its error is ignored
	Escape *Escape      // the escape keys, for a terminal only; nil: none
	// Ended is called when the session has ended. It must end a blocked Write, usually by
	// closing the client.
	Ended func(Ending)
}

// Stream carries output, input, signals and the size of the terminal until the command has
// ended or the user has left. sources has one source of events for each of s.Outputs. Without
// an input only output is carried.
func (s *Session) Stream(p Process, sources []Events, in *Input, signals <-chan os.Signal) Ending {
	if s.raw {
		defer MakeRaw(s.stdin)()
		defer FollowSize(s.stdout, func(rows, cols uint16) {
			ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
			defer cancel()
			p.Resize(ctx, int(rows), int(cols)) // fails only if the command no longer has a terminal
		})()
	}
	if in == nil {
		return s.carry(p, sources, signals, nil)
	}
	keys := in.Escape
	if !Is(s.stdin) || !s.Guest && !s.raw {
		keys = nil
	}
	k := newKeyboard(s.stdin, keys, in.To, in.Close)
	defer k.wait()
	defer k.stop()
	end := s.carry(p, sources, signals, k.leave)
	in.Ended(end)
	return end
}

// carry writes output until the command has ended. Meanwhile it handles signals, the timeout and a
// broken output. left gets an error if the user disconnects; it may be nil.
func (s *Session) carry(p Process, sources []Events, signals <-chan os.Signal, left <-chan error) Ending {
	ctx, cancel := context.WithCancel(context.Background())
	results := make(chan copied, len(sources))
	broken := make(chan error, len(sources))
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	for i, out := range s.outputs() {
		tasks.Go(func() { results <- s.copy(ctx, sources[i], out, broken) })
	}
	var timeout, grace <-chan time.Time
	if s.Timeout > 0 {
		timeout = time.After(s.Timeout)
	}
	forward := newForwarder(ctx, &tasks, p)
	end := Ending{}
	for waiting := len(sources); waiting > 0; {
		select {
		case c := <-results:
			waiting--
			end.add(c)
		case sig := <-signals:
			if end.Left = s.signal(sig, forward); end.Left != nil {
				return end
			}
		case err := <-broken:
			if s.Guest && err != nil {
				end.Output = err
				return end
			}
			if s.Guest {
				end.Left = SignalError{syscall.SIGPIPE}
				return end
			}
			// A local command would get SIGPIPE with its next write.
			forward.post(func(ctx context.Context) { p.Signal(ctx, "SIGPIPE"); p.Terminate(ctx) })
		case <-timeout:
			end.Timeout = !s.exited.Load() // an exited command keeps its exit code
			forward.post(func(ctx context.Context) { p.Terminate(ctx) })
			grace = time.After(giveUpGrace)
		case <-grace:
			end.Err = errors.New("the command has not ended in time")
			return end
		case err := <-left:
			end.Left = err
			return end
		}
	}
	return end
}

// signal passes a signal on to the command. It returns an error if the signal ends the session
// instead.
func (s *Session) signal(sig os.Signal, forward *forwarder) error {
	_, harmless := harmlessSignals[sig]
	switch {
	case harmless && s.Watching:
		return nil
	case harmless:
		forward.send(sig)
		return nil
	case s.Watching:
		return SignalError{sig.(syscall.Signal)}
	case !forward.send(sig) && !s.connected():
		return errors.Join(SignalError{sig.(syscall.Signal)}, ErrUnreachable)
	}
	return nil
}

func (e *Ending) add(c copied) {
	if c.exited {
		e.Code, e.Exited, e.Failure = c.code, true, c.failure
	}
	e.Err, e.Output = cmp.Or(e.Err, c.err), cmp.Or(e.Output, c.output)
}

// An output is a destination for the output of a command.
type output struct {
	to func(stream string) io.Writer // nil: nowhere
}

// Outputs is how many sources of events Stream needs.
func (s *Session) Outputs() int { return len(s.outputs()) }

// outputs returns the destinations. If both streams go to the same file, one reader writes them
// in the order in which the server has read them. Else each stream has its own reader, so that
// one can continue while the other has to wait.
func (s *Session) outputs() []output {
	stdout, stderr := s.Status.Output(s.stdout), s.Status.Output(s.stderr)
	both := func(stream string) io.Writer {
		if stream == wire.StreamStderr {
			return stderr
		}
		return stdout
	}
	if s.tty || SameFile(s.stdout, s.stderr) {
		return []output{{to: both}}
	}
	only := func(isStderr bool) output {
		return output{to: func(stream string) io.Writer {
			if (stream == wire.StreamStderr) != isStderr {
				return nil
			}
			return both(stream)
		}}
	}
	return []output{only(false), only(true)}
}

// SameFile reports whether two streams lead to the same file, pipe or terminal.
func SameFile(a *os.File, b io.Writer) bool {
	f, ok := b.(*os.File)
	if !ok || a == nil || f == nil {
		return false
	}
	return isSame(a, f)
}

// A copied is the result of copying one output.
type copied struct {
	code    int
	exited  bool
	failure string
	last    uint64 // event
	err     error
	output  error // of the output of this program
}

// copy writes output until it has ended, or has been silent for a while after the
// exit of the command.
func (s *Session) copy(ctx context.Context, from Events, out output, broken chan<- error) (c copied) {
	dead := false // the output cannot be written
	for {
		e, err := s.next(ctx, from, c)
		switch {
		case err != nil && (errors.Is(err, io.EOF) || errors.Is(err, errSilent)):
			return c
		case err != nil:
			if ctx.Err() == nil {
				c.err = err
			}
			return c
		}
		c.last = e.Seq
		switch e.Kind {
		case client.Exited:
			c.code, c.exited = e.ExitCode, true
			if e.Failure != nil {
				c.failure = *e.Failure
			}
			s.exited.Store(true)
		case client.Gap:
			if s.Guest { // the server keeps nothing for observers
				continue
			}
			c.err = &client.GapError{First: e.First, Last: e.Seq}
		case client.Output:
			to := out.to(e.Stream)
			if to == nil || dead {
				continue
			}
			if _, err := to.Write(e.Data); err != nil {
				dead = true
				if !errors.Is(err, syscall.EPIPE) { // after EPIPE the command is ended with SIGPIPE
					c.output = OutputError(err)
				}
				broken <- c.output
			}
		}
	}
}

// errSilent means that an output was silent for long enough.
var errSilent = errors.New("no more output")

// next returns the event after those that were copied. After the exit of the command it waits no
// longer than outputGrace, if the server is connected and has no further event.
func (s *Session) next(ctx context.Context, from Events, c copied) (client.Event, error) {
	if !c.exited {
		return from.Next(ctx)
	}
	for {
		short, cancel := context.WithTimeoutCause(ctx, outputGrace, errSilent)
		e, err := from.Next(short)
		cancel()
		if !errors.Is(err, errSilent) {
			return e, err
		}
		if newest, nerr := s.newest(ctx); s.connected() && (nerr != nil || newest <= c.last) {
			return e, err
		}
	}
}

// A forwarder sends requests to a command one after the other, in a goroutine of its own.
type forwarder struct {
	process Process
	jobs    chan func(context.Context)
	pending atomic.Int32 // jobs that wait or run
}

// maxPending is how many jobs may wait.
const maxPending = 8

func newForwarder(ctx context.Context, tasks *sync.WaitGroup, p Process) *forwarder {
	f := &forwarder{process: p, jobs: make(chan func(context.Context), maxPending)}
	tasks.Go(func() { // ends with ctx
		for {
			select {
			case job := <-f.jobs:
				limited, cancel := context.WithTimeout(ctx, sendTimeout)
				job(limited)
				cancel()
				f.pending.Add(-1)
			case <-ctx.Done():
				return
			}
		}
	})
	return f
}

// post queues a job. It returns false if the queue is full.
func (f *forwarder) post(job func(context.Context)) bool {
	select {
	case f.jobs <- job:
		f.pending.Add(1)
		return true
	default:
		return false
	}
}

// send passes a signal on. It reports whether no other job was waiting.
func (f *forwarder) send(sig os.Signal) bool {
	idle := f.pending.Load() <= 0
	return f.post(func(ctx context.Context) { f.process.Signal(ctx, signalName(sig)) }) && idle
}
