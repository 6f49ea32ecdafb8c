package session

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// processes are the processes of a session. The session's lock guards them.
type processes struct {
	byID      map[string]*Process
	leftovers []*proc.Process // processes that forgotten commands left running
	observers int             // of all processes together
}

// full reports whether no more processes can be added.
func (p *processes) full() bool {
	if len(p.byID)+len(p.leftovers) >= MaxProcesses {
		p.keep() // removes leftovers that have ended
	}
	return len(p.byID)+len(p.leftovers) >= MaxProcesses
}

// keep adds leftovers, and removes those that have ended.
func (p *processes) keep(more ...*proc.Process) {
	p.leftovers = slices.DeleteFunc(append(p.leftovers, more...), func(c *proc.Process) bool { return !c.Leftovers() })
}

// keepLeftovers lets a process that a command has left running live until the
// session ends.
func (s *Session) keepLeftovers(c *proc.Process) {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		s.processes.keep(c)
	}
	s.mu.Unlock()
	if ended {
		c.Kill()
	}
}

// StartProcess starts a command, and returns when it runs. raw are the parameters as the client
// sent them: with them the process survives this program, if sessions do. They may be nil, and so may the trace.
func (s *Session) StartProcess(p *wire.StartParams, raw []byte, trace *launch.Trace) (*Process, error) {
	command, err := launch.Check(p)
	if err != nil {
		return nil, err
	}
	command.Trace = trace
	process := s.newProcess(p)
	process.setCommand(command)
	if earlier, err := s.reserve(process); err != nil || earlier != nil {
		return earlier, err
	}
	began := time.Now()
	var child *proc.Process
	if err = process.open(raw); err == nil {
		child, err = s.launcher.Start(s.ctx, command, process.Log, process.record.forLauncher())
	}
	err = s.finishStart(process, child, err)
	s.table.config.Events.start(process, time.Since(began), err)
	return process, err
}

// setCommand is called before the command starts or is adopted.
func (p *Process) setCommand(c *launch.Command) {
	p.Command = c
	c.Exited = func(code int) { p.session.table.config.Events.exit(p, code) }
}

// newProcess returns a process that is not started yet, and has no log.
func (s *Session) newProcess(params *wire.StartParams) *Process {
	return &Process{ID: params.ProcessID, session: s, params: params, began: time.Now(), started: make(chan struct{})}
}

// open makes the log of a process.
func (p *Process) open(raw []byte) (err error) {
	record, err := p.session.recordStart(p.ID, raw)
	if err != nil {
		return err
	}
	p.session.mu.Lock()
	if p.record = record; p.cancelled {
		p.record.cancel()
	}
	p.session.mu.Unlock()
	p.writes.record = p.record
	p.setLog(outlog.New(p.session.table.config.Pool, p.logConfig()))
	return nil
}

func (p *Process) setLog(log *outlog.Log) {
	p.Log = log
	if keep := p.params.KeepNewest; keep != nil && *keep {
		keepNewest(log)
	}
}

func (p *Process) logConfig() outlog.Config {
	s := p.session
	terms := s.table.termsNow()
	output := outlog.Config{Retain: terms.Retain, Limit: terms.SpoolLimit, Acks: s.acks, CloseDelivered: func() { s.closeDelivered(p) }}
	p.record.configure(&output)
	return output
}

// keepNewest lets a log forget output that was never sent, from now until the log ends.
func keepNewest(log *outlog.Log) {
	log.OnAppend(func(bool) { log.Release(log.State().Next - 1) })
}

// reserve adds a process that is about to start, and returns nil. If there is a process
// with its id, the client has marked the start as a retry, and its parameters are the
// same, reserve waits for the earlier start and returns that process.
func (s *Session) reserve(p *Process) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, ErrEnded
	}
	earlier := s.processes.byID[p.ID]
	switch {
	case earlier == nil:
		if s.processes.full() {
			return nil, limitReached(MaxProcesses, "processes in this session")
		}
		s.processes.byID[p.ID] = p
		return nil, nil
	case p.params.Retry == nil || !*p.params.Retry:
		return nil, fmt.Errorf("process %s %w", p.ID, ErrProcessExists)
	case !launch.Same(earlier.params, p.params):
		return nil, fmt.Errorf("process %s %w", p.ID, ErrRetryDiffers)
	}
	s.mu.Unlock()
	<-earlier.started
	if errors.Is(earlier.startErr, proc.ErrNeverStarted) { // by a program that has died since
		defer s.mu.Lock() // which the deferred call unlocks
		return s.reserve(p)
	}
	s.mu.Lock()
	return earlier, earlier.startErr
}

// finishStart records the result of a start. If the process was terminated meanwhile, or
// its session ended, finishStart kills it, and the process belongs to the session until
// it is gone.
func (s *Session) finishStart(p *Process, child *proc.Process, err error) error {
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
		p.discard(child)
		s.mu.Lock()
		delete(s.processes.byID, p.ID)
		s.mu.Unlock()
	}
	close(p.started)
	return err
}

// end kills a process in any state when its session ends.
func (p *Process) end() {
	<-p.started // a start that is still running will see that the session has ended
	if p.child != nil {
		p.discard(p.child)
	}
}

// discard ends everything of a process. child is nil if it was not started.
func (p *Process) discard(child *proc.Process) {
	if p.Log != nil {
		p.Log.End()
	}
	if child != nil {
		p.release(child)
		child.Kill()
	} else if p.record != nil {
		p.session.table.config.Launch.Procs.Discard(p.record.slot)
		p.record.drop(&p.writes)
	}
}

// release lets go of the slot of a process whose log has ended: it is freed when everything that the
// process started has ended.
func (p *Process) release(child *proc.Process) {
	if p.record != nil {
		child.Release(func() { p.record.drop(&p.writes) })
	}
}
