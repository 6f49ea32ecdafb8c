package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// outputGrace is how long the output of a command that has exited may be silent
	// before it is not waited for any more: a child in the background may hold it.
	outputGrace = 2 * time.Second

	// giveUpGrace is how long a command may take to end after its time is over.
	giveUpGrace = 10 * time.Second

	// sendPatience bounds a signal or a new size: it is old news after that.
	sendPatience = time.Minute
)

// A handle is a command somewhere else, as one can act on it.
type handle interface {
	Signal(ctx context.Context, name string) error
	Resize(ctx context.Context, rows, cols int) error
	Terminate(ctx context.Context) (running bool, err error)
}

// events are what a command does, in order.
type events interface {
	Next(context.Context) (client.Event, error)
}

// A desk is our end of a command: standard streams, a terminal perhaps, signals.
type desk struct {
	stdin, stdout *os.File
	stderr        io.Writer
	tty           bool // the command has a terminal
	raw           bool // ours passes on each key
	status        *statusLine
	connected     func() bool
	newest        func(context.Context) (seq uint64, err error) // of the command's events, on the server
	timeout       time.Duration                                 // 0: none
	guest         bool                                          // the command is not ours: it goes on without us
	watching      bool                                          // signals are for us, not for the command
	exited        atomic.Bool                                   // the command has
}

// newDesk looks at our standard streams. tty says that the command has a terminal,
// typing that it gets our input.
func newDesk(stdin, stdout *os.File, stderr io.Writer, tty, typing bool, status *statusLine) *desk {
	d := &desk{stdin: stdin, stdout: stdout, stderr: stderr, tty: tty, status: status}
	d.raw = tty && typing && isTerminal(stdin) && isTerminal(stdout)
	status.setRaw(d.raw)
	return d
}

// on says which command it is about.
func (d *desk) on(conn *connection, session, process string) {
	d.connected = func() bool { return conn.Status().State == client.Connected }
	d.newest = func(ctx context.Context) (uint64, error) {
		all, err := conn.Processes(ctx, session)
		if err != nil {
			return 0, err
		}
		found := match(all, func(p *wire.ProcessInfo) bool { return p.ProcessID == process })
		if len(found) == 0 {
			return 0, client.ErrUnknownProcess
		}
		return found[0].NextSeq - 1, nil
	}
}

// size is that of our terminal; zero if there is none.
func (d *desk) size() (rows, cols int) {
	if !d.raw {
		return 0, 0
	}
	r, c := terminalSize(d.stdout)
	return int(r), int(c)
}

// endLine moves the cursor of our terminal to the beginning of a new line: the program
// that the user leaves may have it anywhere.
func (d *desk) endLine() {
	if d.raw {
		io.WriteString(d.stderr, "\r\n")
	}
}

// An ending is why a desk is left.
type ending struct {
	code    int
	exited  bool // code is that of the command
	timeout bool
	err     error // the command, or its output, was lost
	output  error // ours took no more
	left    error // the user has left: errEscape, or a signal while nobody answered
}

// attend carries output until the command has ended, and does meanwhile what signals
// and the terminal ask for. outputs has one source of events for each of d.outputs.
// left tells that the user wants to go; it may be nil.
func (d *desk) attend(r handle, sources []events, signals <-chan os.Signal, left <-chan error) ending {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	results := make(chan copied, len(sources))
	broken := make(chan error, len(sources))
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	for i, out := range d.outputs() {
		tasks.Go(func() { results <- d.copy(ctx, sources[i], out, broken) })
	}
	var timeout, grace <-chan time.Time
	if d.timeout > 0 {
		timeout = time.After(d.timeout)
	}
	forward := newForwarder(ctx, &tasks, r)
	end := ending{}
	for waiting := len(sources); waiting > 0; {
		select {
		case c := <-results:
			waiting--
			end.add(c)
		case sig := <-signals:
			if _, harmless := harmlessSignals[sig]; harmless {
				if !d.watching {
					forward.send(sig)
				}
				continue
			}
			if d.watching {
				end.left = codedError{code: exitSignal + int(sig.(syscall.Signal))}
				return end
			}
			if !forward.send(sig) && !d.connected() {
				end.left = codedError{exitSignal + int(sig.(syscall.Signal)),
					errors.New("the server cannot be reached; the command may run on until the server ends this session")}
				return end
			}
		case err := <-broken:
			if d.guest && err != nil {
				end.output = err
				return end
			}
			if d.guest {
				end.left = codedError{code: exitSignal + int(syscall.SIGPIPE)}
				return end
			}
			// The command should learn it by its next write, and by default die.
			forward.post(func(ctx context.Context) { r.Signal(ctx, "SIGPIPE"); r.Terminate(ctx) })
		case <-timeout:
			end.timeout = !d.exited.Load() // else only its output is waited for
			forward.post(func(ctx context.Context) { r.Terminate(ctx) })
			grace = time.After(giveUpGrace)
		case <-grace:
			end.err = errors.New("the command has not ended in time")
			return end
		case err := <-left:
			end.left = err
			return end
		}
	}
	return end
}

func (e *ending) add(c copied) {
	if c.exited {
		e.code, e.exited = c.code, true
	}
	e.err, e.output = cmp.Or(e.err, c.err), cmp.Or(e.output, c.output)
}

// An output is where some of a command's output goes.
type output struct {
	to func(stream string) io.Writer // nil: nowhere
}

// outputs returns where output goes. If both streams end in the same place, one
// reader writes to it what the server has read, in that order. Else each stream has its own
// reader, so that one may be held up while the other goes on.
func (d *desk) outputs() []output {
	stdout, stderr := d.status.output(d.stdout), d.status.output(d.stderr)
	both := func(stream string) io.Writer {
		if stream == wire.StreamStderr {
			return stderr
		}
		return stdout
	}
	if d.tty || sameFile(d.stdout, d.stderr) {
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

// sameFile reports whether two streams end in the same file, pipe or terminal.
func sameFile(a *os.File, b io.Writer) bool {
	f, ok := b.(*os.File)
	if !ok || a == nil || f == nil {
		return false
	}
	return isSame(a, f)
}

// A copied is how the copying of an output ended.
type copied struct {
	code   int
	exited bool
	last   uint64 // event
	err    error
	output error // of ours
}

// copy writes output until it has ended, or has been silent for a while after the
// exit of the command.
func (d *desk) copy(ctx context.Context, from events, out output, broken chan<- error) (c copied) {
	dead := false // nobody reads it
	for {
		e, err := d.next(ctx, from, c)
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
			d.exited.Store(true)
		case client.Gap:
			if d.guest { // nothing is kept for guests
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
				if !errors.Is(err, syscall.EPIPE) { // that is the command's matter
					c.output = fmt.Errorf("%w: %w", errOutput, cause(err))
				}
				broken <- c.output
			}
		}
	}
}

// errSilent means that an output was silent for long enough.
var errSilent = errors.New("no more output")

// next returns the event that follows what was copied. After the exit of the command
// it is not waited for longer than outputGrace, as long as somebody could tell us about
// it and nothing is on its way.
func (d *desk) next(ctx context.Context, from events, c copied) (client.Event, error) {
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
		if newest, nerr := d.newest(ctx); d.connected() && (nerr != nil || newest <= c.last) {
			return e, err
		}
	}
}

// A forwarder does what has to be told to a command, one after the other and without
// holding up who asks for it.
type forwarder struct {
	handle handle
	jobs   chan func(context.Context)
	untold atomic.Int32 // jobs that are waiting, or being done
}

// maxUntold is how many jobs wait for their turn.
const maxUntold = 8

func newForwarder(ctx context.Context, tasks *sync.WaitGroup, r handle) *forwarder {
	f := &forwarder{handle: r, jobs: make(chan func(context.Context), maxUntold)}
	tasks.Go(func() { // ends with ctx
		for {
			select {
			case job := <-f.jobs:
				limited, cancel := context.WithTimeout(ctx, sendPatience)
				job(limited)
				cancel()
				f.untold.Add(-1)
			case <-ctx.Done():
				return
			}
		}
	})
	return f
}

// post asks for something to be done; false: too much waits already.
func (f *forwarder) post(job func(context.Context)) bool {
	select {
	case f.jobs <- job:
		f.untold.Add(1)
		return true
	default:
		return false
	}
}

// send passes a signal on. It reports whether nothing else was waiting.
func (f *forwarder) send(sig os.Signal) bool {
	idle := f.untold.Load() <= 0
	return f.post(func(ctx context.Context) { f.handle.Signal(ctx, signalName(sig)) }) && idle
}

// result turns an ending into an exit code and what there is to say.
func (e ending) result() error {
	switch {
	case e.left != nil:
		return e.left
	case e.timeout:
		if e.err != nil {
			return codedError{exitTimeout, e.err}
		}
		return codedError{code: exitTimeout}
	case e.output != nil:
		return codedError{exitRefused, e.output}
	case errors.Is(e.err, client.ErrGap):
		return codedError{exitRefused, e.err}
	case e.err != nil:
		return codedError{exitLost, e.err}
	case !e.exited:
		return codedError{exitLost, fmt.Errorf("nobody knows how the command ended")}
	}
	return ofCommand(e.code)
}
