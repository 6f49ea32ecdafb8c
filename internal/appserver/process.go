package appserver

import (
	"sync"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

const (
	// timeoutCode is the exit code of a process that has timed out.
	timeoutCode = 124

	// drainTime is how long after the exit the end of the output is awaited:
	// processes that the command left running may hold it open for ever.
	drainTime = 2 * time.Second

	// drainStep is how often a drain whose time is over checks whether the client,
	// which blocks the output, has caught up.
	drainStep = 100 * time.Millisecond

	// streamAhead is how much streamed output waits for a client before the command
	// has to wait. It fits into the memory of a log, so no spool is needed.
	streamAhead = 512 << 10
)

// A state of a process only moves forward.
type state uint8

const (
	running  state = iota
	killed         // the command was killed and has not exited yet
	draining       // the command has exited; its output may continue
	over           // later output is dropped
)

// A process is one command and its handle, until the client was told of its exit.
// It is the sink of the command's output.
type process struct {
	conn   *conn
	handle string
	params *wire.ProcessSpawnParams
	input  *input      // nil: no input
	log    *outlog.Log // holds streamed output; nil: the streams collect it
	notes  notes

	mu     sync.Mutex
	child  *proc.Process // nil while it is starting
	state  state
	code   int // the exit code, once the command has exited
	time   timeLimit
	drain  drain
	stdout stream
	stderr stream
}

// A timeLimit limits how long a command may run.
type timeLimit struct {
	deadline time.Time   // zero: none
	timer    *time.Timer // kills the command; nil: none
	passed   bool
}

// A drain is the wait for the end of the output, after the command has exited.
type drain struct {
	timer    *time.Timer // nil before the exit
	heldUp   bool        // when the timer last fired, the client had blocked the output
	timedOut bool        // the rest of the output was dropped
}

// newProcess prepares for a command that is about to start.
func newProcess(c *conn, params *wire.ProcessSpawnParams, by *client) *process {
	p := &process{conn: c, handle: params.ProcessHandle, params: params}
	limit, limited := timeout(params.TimeoutMs)
	p.time.passed = limited && limit == 0 // however fast the command is
	streamed := params.TTY || params.StreamStdoutStderr
	for _, s := range []*stream{&p.stdout, &p.stderr} {
		switch wish := params.OutputBytesCap; {
		case wish.Wish == wire.Default:
			s.limit = defaultOutputCap
		case wish.Wish == wire.Given:
			s.limit = wish.Bytes
		default:
			s.unlimited = true
		}
		if !streamed && (s.unlimited || s.limit > maxOutputCap) {
			s.limit, s.unlimited = maxOutputCap, false
		}
	}
	p.stderr.ended = params.TTY // all output of a terminal is stdout
	if streamed {
		p.log = outlog.New(c.server.pool, outlog.Config{Retain: 1, Limit: streamAhead})
	}
	if params.TTY || params.StreamStdin {
		p.input = &input{process: p}
	}
	p.notes.init(p, by)
	return p
}

// started notes the child and starts its time limit. If the connection has ended,
// it kills the child.
func (p *process) started(child *proc.Process) {
	limit, limited := timeout(p.params.TimeoutMs)
	p.mu.Lock()
	p.child = child
	if limited && p.state == running {
		p.time.deadline = child.StartedAt().Add(limit)
		p.time.timer = time.AfterFunc(limit, p.timeUp)
	}
	p.mu.Unlock()
	p.conn.mu.Lock()
	late := p.conn.ended
	p.conn.mu.Unlock()
	if late { // end may have run before there was a child
		p.abandon()
		killAll([]*proc.Process{child})
	}
}

// running reports whether the command has not exited.
func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state < draining
}

// startedChild is nil if the process has not been started, or the start has failed.
func (p *process) startedChild() *proc.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

// timeUp is called when the command has reached its time limit.
func (p *process) timeUp() {
	p.mu.Lock()
	if p.state < draining {
		p.time.passed = true
	}
	p.mu.Unlock()
	p.kill()
}

// kill kills the command and everything that it started, and does not wait for it. It reports
// false if the command has exited already.
func (p *process) kill() bool {
	p.mu.Lock()
	child, before := p.child, p.state
	if before == running {
		p.state = killed
	}
	p.mu.Unlock()
	if before == running {
		p.conn.kill(child)
	}
	return before < draining
}

// isEnding reports whether the command has been killed or has exited.
func (p *process) isEnding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state != running
}

// killGroup kills the process group at once.
func killGroup(child *proc.Process) { child.Signal(syscall.SIGKILL) } // an error means that it has ended

// Exit implements proc.Sink.
func (p *process) Exit(code int) {
	p.mu.Lock()
	if p.time.timer != nil {
		p.time.timer.Stop()
	}
	if !p.time.deadline.IsZero() && !time.Now().Before(p.time.deadline) {
		p.time.passed = true
	}
	p.code = code
	if p.state < draining {
		p.state = draining
		p.drain.timer = time.AfterFunc(p.conn.server.drainTime, p.drainOver)
	}
	p.mu.Unlock()
	if p.input != nil {
		p.input.end()
	}
	p.settle()
}

// Cut implements proc.Sink. It does nothing: the output waits for the client as
// long as the client is connected.
func (p *process) Cut() {}

// Close implements proc.Sink.
func (p *process) Close() {}

// settle ends the process once it has exited and no more wanted output can come.
func (p *process) settle() {
	p.mu.Lock()
	mine := p.state == draining && p.stdout.done() && p.stderr.done()
	if mine {
		p.overLocked()
	}
	p.mu.Unlock()
	if mine {
		p.announce()
	}
}

// drainOver is called when the output has not ended in time. Time during which the
// client blocks the output does not count.
func (p *process) drainOver() {
	p.mu.Lock()
	if p.state != draining {
		p.mu.Unlock()
		return
	}
	if p.log != nil && p.log.Stats().Blocked {
		p.drain.heldUp = true
		p.drain.timer.Reset(drainStep)
		p.mu.Unlock()
		return
	}
	if p.drain.heldUp { // it can be read only since now
		p.drain.heldUp = false
		p.drain.timer.Reset(p.conn.server.drainTime)
		p.mu.Unlock()
		return
	}
	p.drain.timedOut = true
	p.overLocked()
	p.mu.Unlock()
	p.announce()
}

func (p *process) overLocked() {
	p.state = over
	for _, t := range []*time.Timer{p.time.timer, p.drain.timer} {
		if t != nil {
			t.Stop()
		}
	}
}

// announce sends the exit to the client, after all output.
func (p *process) announce() {
	if p.log != nil {
		p.log.Close()
	}
	p.notes.wake()
}

// abandon drops the output, because the connection has ended, and returns the
// child, if there is one, to be killed.
func (p *process) abandon() *proc.Process {
	p.mu.Lock()
	p.overLocked()
	p.stdout.text, p.stderr.text = nil, nil
	child := p.child
	p.mu.Unlock()
	if p.log != nil {
		p.log.End()
	}
	return child
}
