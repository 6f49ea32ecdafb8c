package session

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

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

	started  chan struct{} // closed when the start has succeeded or failed
	startErr error         // why it failed; set before started is closed

	// Guarded by the session.
	child     *proc.Process // nil while it is starting
	cancelled bool          // terminated while it was starting
	pusher    *Attachment   // who pushes its events
	known     uint64        // the client is known to have the events up to here
	closeSent bool
	observers int

	sent atomic.Uint64 // the newest event that a connection was sent

	writes writes
}

// StartProcess starts a command, and returns when it runs.
func (s *Session) StartProcess(p *wire.StartParams) (*Process, error) {
	command, err := launch.Check(p)
	if err != nil {
		return nil, err
	}
	process := &Process{ID: p.ProcessID, Command: command, session: s, params: p, started: make(chan struct{})}
	process.Log = outlog.New(s.table.config.Pool, s.table.config.Output)
	if p.KeepNewest != nil && *p.KeepNewest {
		keepNewest(process.Log)
	}
	if earlier, err := s.reserve(process); err != nil || earlier != nil {
		return earlier, err
	}
	child, err := s.launcher.Start(s.ctx, command, process.Log)
	return process, s.settle(process, child, err)
}

// keepNewest lets a log forget what was never sent, as if somebody read all of it at
// once. It ends with the log.
func keepNewest(log *outlog.Log) {
	log.OnAppend(func(bool) { log.Sent(log.State().Next - 1) })
}

// reserve enters a process that is about to start. A retry of an earlier start
// returns that process instead, when it has started.
func (s *Session) reserve(p *Process) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, ErrEnded
	}
	earlier := s.processes[p.ID]
	switch {
	case earlier == nil:
		if s.fullLocked() {
			return nil, limitReached(MaxProcesses, "processes in this session")
		}
		s.processes[p.ID] = p
		return nil, nil
	case p.params.Retry == nil || !*p.params.Retry:
		return nil, fmt.Errorf("process %s %w", p.ID, ErrProcessExists)
	case !launch.Same(earlier.params, p.params):
		return nil, fmt.Errorf("process %s %w", p.ID, ErrRetryDiffers)
	}
	s.mu.Unlock()
	<-earlier.started
	s.mu.Lock()
	return earlier, earlier.startErr
}

// fullLocked reports whether the session can have no more processes.
func (s *Session) fullLocked() bool {
	if len(s.processes)+len(s.survivors) >= MaxProcesses {
		s.keepSurvivorsLocked() // they may have ended since
	}
	return len(s.processes)+len(s.survivors) >= MaxProcesses
}

// settle records how a start went. A process that was terminated meanwhile, or
// whose session ended, is killed, and belongs to the session until it is gone.
func (s *Session) settle(p *Process, child *proc.Process, err error) error {
	s.mu.Lock()
	if err == nil && (p.cancelled || s.ended) {
		err = fmt.Errorf("process %s %w", p.ID, ErrStartCancelled)
	}
	if err == nil {
		p.child = child
	}
	p.startErr = err
	s.mu.Unlock()
	if err != nil {
		p.Log.End()
		if child != nil {
			child.Kill()
		}
		s.mu.Lock()
		delete(s.processes, p.ID)
		s.mu.Unlock()
	}
	close(p.started)
	return err
}

// end kills a process, whatever it is doing, when its session ends.
func (p *Process) end() {
	<-p.started // a start that is under way finds the session ended
	p.Log.End()
	if p.child != nil {
		p.child.Kill()
	}
}

// StartAnswered begins to push the events of a process whose start was just
// answered. If the client has lost its connection since, the next one asks for
// them, or gets them like all that it does not ask for.
func (a *Attachment) StartAnswered(p *Process) {
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attachment == a {
		a.catchUpLocked(p)
	} else if s.attachment != nil && s.attachment.quiet != nil {
		s.attachment.quiet.Reset(resumeQuiet)
	}
}

// Sent records that the client was sent the events of p up to seq. For a client
// that acknowledges, that means nothing yet.
func (p *Process) Sent(seq uint64) {
	p.sent.Store(seq)
	if !p.session.acks {
		p.release(seq)
	}
}

// release lets go of the events up to seq. With the close among them, the time
// begins after which the process is forgotten.
func (p *Process) release(seq uint64) {
	p.Log.Sent(seq)
	if !p.Log.StateAt(seq + 1).Closed {
		return
	}
	s := p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.closeSent {
		p.closeSent = true
		s.closeSentLocked(p)
	}
}

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
	if s.acks {
		p.release(seq)
	}
}

// Find returns a process that has started.
func (s *Session) Find(id string) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes[id]
	switch {
	case p == nil:
		return nil, fmt.Errorf("%w %s", ErrUnknownProcess, id)
	case p.child == nil:
		return nil, fmt.Errorf("process id %s %w", id, ErrProcessStarting)
	}
	return p, nil
}

// Terminate ends a process and reports whether it was running. own says whether
// it is the session's client that wants this.
func (s *Session) Terminate(id string, own bool) (running bool) {
	s.mu.Lock()
	p := s.processes[id]
	if p != nil && p.child == nil {
		p.cancelled = true
		s.mu.Unlock()
		return true
	}
	if p != nil && p.closeSent && own {
		p.known = p.Log.State().Next - 1 // who says goodbye has seen the end
	}
	s.mu.Unlock()
	return p != nil && p.child.Terminate()
}

// Signal sends a signal to the process group of a process, once per once id if
// there is one. Processes that do not run any more, or not yet, are none of its
// business.
func (s *Session) Signal(id string, sig syscall.Signal, once *string) error {
	p, err := s.Find(id)
	if err != nil {
		return nil
	}
	return p.once(once, "signal "+strconv.Itoa(int(sig)), func() error { return p.child.Signal(sig) })
}

// once acts, if id is given only the first time.
func (p *Process) once(id *string, what string, act func() error) error {
	if id == nil {
		return act()
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

// CloseStdin ends the input of a process, behind what was written before, once per
// once id if there is one.
func (s *Session) CloseStdin(id string, once *string) error {
	p, err := s.Find(id)
	if err != nil {
		return err
	}
	return p.once(once, "closeStdin", p.child.CloseStdin)
}

// Write hands bytes to the standard input of a process, once per write id.
// done is called once, with the status or an error, possibly before Write
// returns. It never waits.
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
		p.writes.do(w.WriteID, w.Chunk, p.child.Write, func(err error) {
			if errors.Is(err, proc.ErrStdinClosed) {
				done(wire.WriteStdinClosed, nil)
			} else {
				done(wire.WriteAccepted, err)
			}
		})
	}
}

// An Observation is a look at the events of a process from outside its session.
type Observation struct {
	Process *Process
	After   uint64
	once    sync.Once
}

// Observe begins an observation of a process behind number after, or from the
// oldest event that is kept.
func (s *Session) Observe(id string, after *uint64) (*Observation, error) {
	p, err := s.Find(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.observers >= MaxObservers {
		return nil, limitReached(MaxObservers, "observers of this session")
	}
	s.observers++
	p.observers++
	o := &Observation{Process: p, After: p.Log.Stats().First - 1}
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
		s.observers--
		o.Process.observers--
	})
}

// A Listed process is what a list tells about it, and the child itself.
type Listed struct {
	Info  wire.ProcessInfo
	Child *proc.Process
	Log   *outlog.Log
}

// Listed describes one process, but for what it uses.
func (p *Process) Listed() Listed {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.listedLocked()
}

func (p *Process) listedLocked() Listed { return Listed{p.infoLocked(), p.child, p.Log} }

// Processes describes the processes of the session, but for what they use.
func (s *Session) Processes() []Listed {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Listed, 0, len(s.processes))
	for _, p := range s.processes {
		if p.child != nil {
			list = append(list, p.listedLocked())
		}
	}
	return list
}

func (p *Process) infoLocked() wire.ProcessInfo {
	state, stats := p.Log.State(), p.Log.Stats()
	sent := max(p.sent.Load(), stats.Sent) // a client that acknowledges was sent more than it has acknowledged
	info := wire.ProcessInfo{
		SessionID: p.session.Public, ProcessID: p.ID, Argv: shortArgv(p.params.Argv), Cwd: p.params.Cwd.String(),
		PID: p.child.Pid(), TTY: p.params.TTY, StartedAtMs: p.child.StartedAt().UnixMilli(),
		State: wire.StateRunning, NextSeq: state.Next, SentSeq: sent,
		HeldBytes: uint64(stats.Held), UnsentBytes: uint64(p.Log.OutputAfter(sent)), SpooledBytes: uint64(stats.Spooled),
		DroppedBytes: uint64(stats.Dropped), Blocked: stats.Blocked, Observers: p.observers,
	}
	if state.Exited {
		info.State, info.ExitCode = wire.StateExited, &state.ExitCode
	}
	if state.Closed {
		info.State = wire.StateClosed
	}
	return info
}

// listedArgv is how much of a command line a list shows: megabytes of arguments
// in a few processes would make it larger than a client can take.
const listedArgv = 1 << 10

// shortArgv returns the beginning of argv, with an ellipsis if there is more.
func shortArgv(argv []string) []string {
	room := listedArgv
	for i, arg := range argv {
		if len(arg) >= room {
			return append(argv[:i:i], strings.ToValidUTF8(arg[:room], "")+"…")
		}
		room -= len(arg) + 1
	}
	return argv
}
