package session

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// A Process is one command of a session, from its start until it is forgotten.
type Process struct {
	ID      string
	Log     *outlog.Log
	Command *launch.Command

	session *Session
	params  *wire.StartParams
	began   time.Time   // when its start began; in a later program, when it had started
	record  *slotRecord // nil: the process ends with this program. Guarded by the session until it has started

	started  chan struct{} // closed when the start has succeeded or failed
	startErr error         // why it failed; set before started is closed

	// Guarded by the session.
	child          *proc.Process // nil while it is starting
	cancelled      bool          // terminated while it was starting
	pusher         *Attachment   // the attachment whose peer pushes its events
	known          uint64        // the client is known to have the events up to here
	observers      map[*Observation]struct{}
	closeDelivered bool // the close was sent or, if the client acknowledges, acknowledged

	writes writes

	controller atomic.Pointer[Controller] // nil: there is none
	recorded   atomic.Bool                // see StartRecorded
}

// missingLocked returns the number above which the client may lack events. Of those up
// to it, the client has each one, or the log has dropped it.
func (p *Process) missingLocked() uint64 { return max(p.known, p.Log.Stats().First-1) }

// Ack records that the client has the events of a process up to seq.
func (s *Session) Ack(id string, seq uint64) {
	p, _ := s.Find(id)
	if p == nil {
		return
	}
	seq = min(seq, p.Log.State().Next-1)
	s.mu.Lock()
	p.known = max(p.known, seq)
	s.mu.Unlock()
	p.Log.Ack(seq)
}

// Find returns a process that has started.
func (s *Session) Find(id string) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes.byID[id]
	switch {
	case p == nil:
		return nil, fmt.Errorf("%w %s", ErrUnknownProcess, id)
	case p.child == nil:
		return nil, fmt.Errorf("process id %s %w", id, ErrProcessStarting)
	}
	return p, nil
}

// Terminate ends a process and reports whether it was running, or starting. own says
// whether the session's own client asked for it.
func (s *Session) Terminate(id string, own bool) (running bool) {
	s.mu.Lock()
	p := s.processes.byID[id]
	if p != nil && p.child == nil {
		p.cancelled = true
		if p.startErr == nil { // otherwise its slot may belong to another process
			p.record.cancel()
		}
		s.mu.Unlock()
		return true
	}
	if p != nil && p.closeDelivered && own {
		p.known = p.Log.State().Next - 1 // a client that terminates a closed process has seen its end
	}
	s.mu.Unlock()
	return p != nil && p.child.Terminate()
}

// IsRunning reports whether a process is running, or starting.
func (s *Session) IsRunning(id string) bool {
	p, err := s.Find(id)
	if err != nil {
		return errors.Is(err, ErrProcessStarting)
	}
	_, exited := p.child.Exited()
	return !exited
}

// Signal sends a signal to the process group of a process; with a once id, only
// once per id. If the process has ended, is still starting, or is unknown, Signal does
// nothing.
func (s *Session) Signal(id string, sig syscall.Signal, once *string) error {
	p, err := s.Find(id)
	if err != nil {
		return nil
	}
	return p.once(once, "signal "+strconv.Itoa(int(sig)), func(note func(uint64) error) error {
		if err := note(0); err != nil { // first: no system call sends a signal and records that
			return err
		}
		return p.child.Signal(sig)
	})
}

// once runs act; with an id, only once per id.
func (p *Process) once(id *string, what string, act func(note func(uint64) error) error) error {
	if id == nil {
		return act(func(uint64) error { return nil })
	}
	return p.writes.once(*id, what, act)
}

// Resize changes the size of a process's terminal.
func (s *Session) Resize(id string, rows, cols uint16) error {
	p, err := s.Find(id)
	if err != nil {
		return err
	}
	return p.child.Resize(rows, cols)
}

// CloseStdin ends the input of a process after the writes before it; with a once
// id, only once per id.
func (s *Session) CloseStdin(id string, once *string) error {
	p, err := s.Find(id)
	if err != nil {
		return err
	}
	return p.once(once, "closeStdin", p.child.CloseStdinNoted)
}

// Write passes bytes to the standard input of a process, once per write id. It
// never waits. done is called once, with the status or an error, possibly before
// Write returns.
func (s *Session) Write(w *wire.WriteParams, done func(status string, err error)) {
	if w.WriteID == "" {
		done("", ErrEmptyWriteID)
		return
	}
	p, err := s.Find(w.ProcessID)
	switch {
	case errors.Is(err, ErrProcessStarting):
		done(wire.WriteStarting, nil)
	case err != nil:
		done(wire.WriteUnknownProcess, nil)
	default:
		p.writes.do(w.WriteID, w.Chunk, p.child.WriteNoted, func(err error) {
			if errors.Is(err, proc.ErrStdinClosed) {
				done(wire.WriteStdinClosed, nil)
			} else {
				done(wire.WriteAccepted, err)
			}
		})
	}
}

// An Observation gives another client access to the events of a process.
type Observation struct {
	Process *Process
	After   uint64 // it begins with the event after this number
	once    sync.Once
	changed func() // see OnController; guarded by the session
}

// Observe begins an observation of the events whose numbers are above after; nil: of
// all events that are kept.
func (s *Session) Observe(id string, after *uint64) (*Observation, error) {
	p, err := s.Find(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.processes.observers >= MaxObservers {
		return nil, limitReached(MaxObservers, "observers of this session")
	}
	s.processes.observers++
	o := &Observation{Process: p, After: p.Log.Stats().First - 1}
	if p.observers == nil {
		p.observers = map[*Observation]struct{}{}
	}
	p.observers[o] = struct{}{}
	if after != nil {
		o.After = *after
	}
	return o, nil
}

// End ends the observation.
func (o *Observation) End() {
	o.once.Do(func() {
		s := o.Process.session
		s.mu.Lock()
		defer s.mu.Unlock()
		s.processes.observers--
		delete(o.Process.observers, o)
	})
}

// Limits are the limits of a process that has started, and how they are enforced.
func (p *Process) Limits() proc.Enforced { return p.child.Limits() }

// Describe returns the facts about a process that has started, without its limits.
func (p *Process) Describe() wire.DescribeResult {
	d := wire.DescribeResult{Process: p.Listed().Info}
	d.Process.Argv = shortArgv(p.params.Argv, wire.MaxDescribedArgv)
	p.Command.Describe(&d)
	if why := p.Failure(); why != "" {
		d.TetherFailure = &why
	}
	return d
}

// A Listed is a process in a list: its description, its child and its log.
type Listed struct {
	Info  wire.ProcessInfo
	Child *proc.Process
	Log   *outlog.Log
}

// Listed describes one process, without its CPU time and memory.
func (p *Process) Listed() Listed {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.listedLocked()
}

func (p *Process) listedLocked() Listed { return Listed{p.infoLocked(), p.child, p.Log} }

// Processes describes the processes of the session that have started, without their CPU
// time and memory.
func (s *Session) Processes() []Listed {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Listed, 0, len(s.processes.byID))
	for _, p := range s.processes.byID {
		if p.child != nil {
			list = append(list, p.listedLocked())
		}
	}
	return list
}

func (p *Process) infoLocked() wire.ProcessInfo {
	state, stats := p.Log.State(), p.Log.Stats()
	// Sent can be below Released: a new connection may be sent old events again, and
	// keepNewest releases events that were never sent. If the client acknowledges,
	// Released can be below Sent.
	sent := max(stats.Sent, stats.Released)
	var size *wire.TermSize
	if rows, cols, ok := p.child.Size(); ok {
		size = &wire.TermSize{Rows: rows, Cols: cols}
	}
	info := wire.ProcessInfo{
		Size:      size,
		SessionID: p.session.Public, ProcessID: p.ID, Argv: shortArgv(p.params.Argv, listedArgv), Cwd: p.params.Cwd.String(),
		PID: p.child.Pid(), TTY: p.params.TTY, StartedAtMs: p.child.StartedAt().UnixMilli(),
		State: wire.StateRunning, NextSeq: state.Next, SentSeq: sent,
		HeldBytes: uint64(stats.Held), UnsentBytes: uint64(p.Log.OutputAfter(sent)), SpooledBytes: uint64(stats.Spooled),
		DroppedBytes: uint64(stats.Dropped), Blocked: stats.Blocked, Observers: len(p.observers),
	}
	if state.Exited {
		info.State, info.ExitCode, info.TetherUsage = wire.StateExited, &state.ExitCode, wireUsage(p.child)
		info.SandboxDenied = p.Command.Denial().Denied
	}
	if state.Closed {
		info.State, info.Survivors = wire.StateClosed, WireSurvivors(p.child)
	} else if c := p.Controller(); c != nil {
		info.ControlledBy = &c.Name
	}
	return info
}

// listedArgv is how much of a command line a list shows: megabytes of arguments
// in a few processes would make it larger than a client can take.
const listedArgv = 1 << 10

// shortArgv returns the beginning of argv, with an ellipsis if there is more.
func shortArgv(argv []string, room int) []string {
	for i, arg := range argv {
		if len(arg) >= room {
			return append(argv[:i:i], strings.ToValidUTF8(arg[:room], "")+"…")
		}
		room -= len(arg) + 1
	}
	return argv
}
