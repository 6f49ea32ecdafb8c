package session

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// Descriptors are those that the keeper holds, by its number of the slot. Restore takes what it needs.
type Descriptors map[int]map[proc.Which]*os.File

// take removes the descriptors of a slot.
func (d Descriptors) take(number int) map[proc.Which]*os.File {
	files := d[number]
	delete(d, number)
	if files == nil {
		files = map[proc.Which]*os.File{}
	}
	return files
}

// Restore brings back the sessions and processes that an earlier program has recorded. The
// sessions are detached as of now. It returns when all processes can be used, except for those
// that are still being started. Slots that belong to no session are freed, and their processes
// killed. Call it before the first client connects.
func (t *Table) Restore(held Descriptors) error {
	r := restoring{table: t, held: held, sessions: map[string]*Session{}, recorded: map[string]*recordedSession{}, starts: map[uint64]*recordedStart{}}
	if err := t.config.Kept.Arena.Journal().Replay(r.visit); err != nil {
		return fmt.Errorf("read the journal of sessions: %w", err)
	}
	r.addSessions()
	r.addProcesses()
	t.config.Kept.Arena.Journal().Drop(r.dead...)
	r.waitForClients()
	return nil
}

// A restoring is a Restore in progress.
type restoring struct {
	table    *Table
	held     Descriptors
	recorded map[string]*recordedSession // by public id; those that have not ended
	starts   map[uint64]*recordedStart   // by the serial number of their slots
	dead     []*arena.Note               // notes that are not needed any more
	sessions map[string]*Session         // by public id
}

// visit collects a note.
func (r *restoring) visit(n *arena.Note, kind arena.NoteKind, payload []byte) error {
	switch kind {
	case noteOpened:
		s, err := decodeOpened(n, payload)
		if err != nil {
			return err
		}
		r.recorded[s.identity.Public] = s
	case noteEnded:
		return r.visitEnded(n, payload)
	case noteStarted:
		start, err := decodeStarted(n, payload)
		if err != nil {
			return err
		}
		r.starts[start.serial] = start
	case noteDone:
		serial, action, err := decodeDone(n, payload)
		if err != nil {
			return err
		}
		if start := r.starts[serial]; start != nil {
			start.done = append(start.done, action)
		} else {
			r.dead = append(r.dead, n)
		}
	default:
		if kind&^arena.Skippable <= lastKind {
			return arena.ErrUnknownKind
		}
	}
	return nil
}

func (r *restoring) visitEnded(n *arena.Note, payload []byte) error {
	public, err := decodeEnded(payload)
	if err != nil {
		return err
	}
	r.dead = append(r.dead, n)
	if s := r.recorded[public]; s != nil {
		r.dead = append(r.dead, s.note)
		delete(r.recorded, public)
	}
	return nil
}

// addSessions makes the sessions.
func (r *restoring) addSessions() {
	t := r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for public, recorded := range r.recorded {
		s := t.newSession(recorded.identity, recorded.ttl, recorded.acks)
		s.note = recorded.note
		s.retention.paused = time.Now()
		t.sessions[s.ID], t.public[public] = s, s
		r.sessions[public] = s
	}
}

// addProcesses takes over the processes, all at the same time.
func (r *restoring) addProcesses() {
	var adoptions sync.WaitGroup
	found := map[uint64]bool{}
	for _, slot := range r.table.config.Kept.Arena.Slots() {
		serial := slot.Serial.Load()
		found[serial] = true
		start := r.starts[serial]
		one := &restoredProcess{
			table: r.table, slot: slot, start: start,
			files: r.held.take(proc.Holder(slot)), launcher: r.held.take(proc.LauncherHolder(slot)), spool: r.held.take(proc.LogHolder(slot))[heldSpool],
		}
		if start != nil {
			one.session = r.sessions[start.session]
		}
		ready := make(chan struct{})
		r.table.tasks.Go(func() { // Close waits for it
			one.run(sync.OnceFunc(func() { close(ready) }))
		})
		adoptions.Go(func() { <-ready })
	}
	for serial, start := range r.starts {
		if found[serial] {
			continue
		}
		r.dead = append(r.dead, start.note)
		for _, a := range start.done {
			r.dead = append(r.dead, a.note)
		}
	}
	adoptions.Wait()
}

// waitForClients lets the time to live of the sessions begin.
func (r *restoring) waitForClients() {
	for _, s := range r.sessions {
		s.mu.Lock()
		s.holder.detachedAt = time.Now()
		s.holder.expiry = time.AfterFunc(s.holder.ttl, s.expire)
		s.mu.Unlock()
	}
}

// A restoredProcess is a process that is taken over.
type restoredProcess struct {
	table   *Table
	session *Session // nil: it has ended
	slot    *arena.Slot
	start   *recordedStart // nil: it was not recorded
	files   map[proc.Which]*os.File
	spool   *os.File // nil: none

	launcher map[proc.Which]*os.File // descriptors of its sandbox
}

// run takes the process over. It calls ready when the process can be used, is known to be starting, or
// is known to be gone.
func (p *restoredProcess) run(ready func()) {
	defer ready()
	switch {
	case p.session == nil:
		ready()
		p.kill()
	case p.slot.LogEnded.Load() != 0:
		p.adoptSurvivor()
	default:
		process, err := p.reopen()
		if err != nil {
			p.session.log.Error("a process is lost: it cannot be taken over", "process", p.start.id, "err", err)
			ready()
			p.kill()
			return
		}
		p.adopt(process, ready)
	}
}

// kill ends a process that belongs to no session.
func (p *restoredProcess) kill() {
	if p.spool != nil {
		p.spool.Close()
	}
	for _, f := range p.launcher {
		f.Close()
	}
	procs, kept := p.table.config.Launch.Procs, p.table.config.Kept
	child, err := procs.Adopt(p.table.ctx, proc.Adoption{Spec: proc.Spec{Slot: p.slot}, Files: p.files, Closed: true})
	if err != nil {
		procs.Discard(p.slot)
		return
	}
	child.Release(func() {
		if p.start != nil {
			kept.Arena.Journal().Drop(p.start.note)
		}
	})
	child.Kill()
}

// adoptSurvivor takes over what a forgotten command has left running.
func (p *restoredProcess) adoptSurvivor() {
	process := &Process{session: p.session, record: &slotRecord{p.table.config.Kept, p.slot, p.start.note}}
	child, err := p.table.config.Launch.Procs.Adopt(p.table.ctx, proc.Adoption{Spec: proc.Spec{Slot: p.slot}, Files: p.files, Closed: true})
	if err != nil {
		process.discard(nil)
		return
	}
	process.release(child)
	p.session.keepSurvivor(child)
}

// reopen makes the process with its log.
func (p *restoredProcess) reopen() (*Process, error) {
	var params wire.StartParams
	if err := wire.Decode(p.start.params, &params); err != nil {
		return nil, fmt.Errorf("parameters of the start: %w", err)
	}
	process := p.session.newProcess(&params)
	var err error
	if process.Command, err = launch.Check(&params); err != nil {
		return nil, err
	}
	process.record = &slotRecord{p.table.config.Kept, p.slot, p.start.note}
	process.writes.record = process.record
	for _, a := range p.start.done {
		if a.ordinal <= p.slot.Input().Writes() {
			process.writes.restore(a)
		} else {
			process.record.forget(a.note)
		}
	}
	log, found, err := outlog.Reopen(p.table.config.Pool, process.logConfig(), p.spool)
	if err != nil {
		return nil, err
	}
	p.spool = nil
	process.setLog(log)
	if p.session.acks {
		process.known = p.slot.Delivered.Load()
	}
	if found.CloseDelivered {
		p.session.closeDelivered(process)
	}
	return process, nil
}

// adopt takes over the running process, or what it has left. If it is still being started, its session
// lists it as starting meanwhile.
func (p *restoredProcess) adopt(process *Process, ready func()) {
	s := p.session
	s.mu.Lock()
	s.processes.byID[process.ID] = process
	s.mu.Unlock()
	if proc.Starting(p.slot) {
		ready()
	}
	child, err := s.launcher.Adopt(p.table.ctx, launch.Found{Command: process.Command, Slot: p.slot, Log: process.Log, Files: p.files, LauncherFiles: p.launcher})
	switch {
	case errors.Is(err, proc.ErrNeverStarted):
		s.log.Info("a command was not started before the server was replaced", "process", process.ID)
	case err != nil:
		s.log.Error("a process is lost: it cannot be taken over", "process", process.ID, "err", err)
	}
	_ = s.finishStart(process, child, err) // the client learns it when it repeats the start
}
