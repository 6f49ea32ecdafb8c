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
	"github.com/tetherexec/tether/internal/reexec"
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
// sessions are detached as of now. It goes on in the background, and everything that asks for a session waits until
// its processes can be used, except for those that are still being started. Slots that belong to no session are
// freed, and their processes killed. deaths is how many programs in a row have died soon. Call Restore before the
// first client connects.
func (t *Table) Restore(held Descriptors, deaths int) error {
	r := restoring{
		table: t, held: held, sessions: map[string]*Session{}, recorded: map[string]*recordedSession{}, starts: map[uint64]*recordedStart{},
		owners: map[string]recordedOwner{}, aside: map[string]bool{}, processes: map[*Session][]*restoredProcess{},
		uploads: map[uint64]*recordedUpload{}, uploadsOf: map[*Session][]*recordedUpload{},
	}
	r.suspicion.begin(t.config.Kept.Arena, deaths)
	journal := t.config.Kept.Arena.Journal()
	if err := journal.Replay(r.collect); err != nil {
		return fmt.Errorf("read the journal of sessions: %w", err)
	}
	if err := r.setAside(); err != nil {
		return fmt.Errorf("set a session aside: %w", err)
	}
	r.addSessions()
	r.addUploads()
	r.addProcesses()
	journal.Drop(r.dead...)
	if r.suspicion.careful {
		r.restoreOneByOne()
		return nil
	}
	t.restoring.Go(func() { // Close waits for it
		r.restoreAll()
	})
	return nil
}

// CheckJournal checks that this program understands what is recorded about sessions. It changes nothing. Damaged notes are
// left out, as by Restore.
func CheckJournal(a *arena.Arena) error {
	r := restoring{table: &Table{}, recorded: map[string]*recordedSession{}, owners: map[string]recordedOwner{},
		starts: map[uint64]*recordedStart{}, uploads: map[uint64]*recordedUpload{}}
	err := a.Journal().Replay(func(n *arena.Note, kind arena.NoteKind, payload []byte) error {
		if err := r.visit(n, kind, payload); !errors.Is(err, arena.ErrDamaged) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the journal of sessions: %w", err)
	}
	return nil
}

// A restoring is a Restore in progress.
type restoring struct {
	table     *Table
	held      Descriptors
	recorded  map[string]*recordedSession // by public id; those that have not ended
	owners    map[string]recordedOwner    // by public id
	starts    map[uint64]*recordedStart   // by the serial number of their slots
	dead      []*arena.Note               // notes that are not needed any more
	sessions  map[string]*Session         // by public id
	processes map[*Session][]*restoredProcess
	uploads   map[uint64]*recordedUpload // by number
	uploadsOf map[*Session][]*recordedUpload
	suspicion suspicion
	asides    []recordedAside
	aside     map[string]bool // public ids of sessions that are set aside; "": what belongs to no session
	damaged   bool            // some notes are lost
}

// collect is visit, and leaves out notes that are damaged.
func (r *restoring) collect(n *arena.Note, kind arena.NoteKind, payload []byte) error {
	err := r.visit(n, kind, payload)
	if errors.Is(err, arena.ErrDamaged) {
		r.table.config.Log.Error("a part of the journal of sessions is lost", "err", err)
		r.dead, r.damaged = append(r.dead, n), true
		return nil
	}
	return err
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
			start.addDone(action)
		} else {
			r.dead = append(r.dead, n)
		}
	case noteAside:
		a, err := decodeAside(n, payload)
		if err != nil {
			return err
		}
		r.asides = append(r.asides, a)
	case notePrincipal, notePrincipal | arena.Skippable:
		return r.visitPrincipal(n, payload)
	case notePolicy:
		return r.visitPolicy(n, payload)
	case noteUpload:
		return r.visitUpload(n, payload)
	default:
		if kind&^arena.Skippable <= lastKind {
			return arena.ErrUnknownKind
		}
	}
	return nil
}

// visitPolicy adds a policy to the start that it belongs to.
func (r *restoring) visitPolicy(n *arena.Note, payload []byte) error {
	d := reexec.Decode(payload)
	start := r.starts[d.Number()]
	policy := d.Rest()
	if err := wellFormed(d, "sandbox"); err != nil {
		return err
	}
	if start == nil {
		r.dead = append(r.dead, n)
		return nil
	}
	start.policy, start.policies = append([]byte{}, policy...), append(start.policies, n)
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

// addSessions makes the sessions. Their processes come when restored is called.
func (r *restoring) addSessions() {
	t := r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	t.aside = map[string]Owner{}
	r.addOwners()
	for public, recorded := range r.recorded {
		if r.aside[public] {
			t.aside[public], t.aside[recorded.identity.ID] = Owner{Principal: recorded.identity.Principal}, recorded.identity.Owner
			continue
		}
		s := t.newSession(recorded.identity, recorded.ttl, recorded.acks)
		s.note, s.ownerNote = recorded.note, r.owners[public].note
		s.retention.paused = time.Now()
		s.restored = sync.OnceFunc(func() { r.restore(s) })
		t.sessions[s.ID], t.public[public] = s, s
		r.sessions[public] = s
	}
}

// addProcesses finds the processes of each session.
func (r *restoring) addProcesses() {
	found := map[uint64]bool{}
	for _, slot := range r.table.config.Kept.Arena.Slots() {
		serial := slot.Serial.Load()
		found[serial] = true
		start := r.starts[serial]
		one := &restoredProcess{
			table: r.table, slot: slot, start: start,
			files: r.held.take(proc.Holder(slot)), launcher: r.held.take(proc.LauncherHolder(slot)), spool: r.held.take(proc.LogHolder(slot))[heldSpool],
		}
		public := ""
		if start != nil {
			public = start.session
			one.session = r.sessions[public]
		}
		if one.session == nil && (r.aside[public] || r.aside[""]) {
			one.close() // the keeper goes on holding what belongs to it
			continue
		}
		r.processes[one.session] = append(r.processes[one.session], one)
	}
	for serial, start := range r.starts {
		if found[serial] {
			continue
		}
		r.dead = append(r.dead, start.notes()...)
	}
}

// restoreAll restores the sessions. One that a client asks for meanwhile does not wait for its turn.
func (r *restoring) restoreAll() {
	r.restore(nil)
	for _, s := range r.sessions {
		s.restored()
	}
	r.suspicion.end()
}

// restore takes over the uploads and processes of a session, all processes at the same time, and lets its time to live begin; nil: those that
// belong to no session.
func (r *restoring) restore(s *Session) {
	r.restoreUploads(s)
	var adoptions sync.WaitGroup
	for _, one := range r.processes[s] {
		adoptions.Add(1)
		r.table.tasks.Go(func() { // Close waits for it
			one.run(sync.OnceFunc(adoptions.Done))
		})
	}
	adoptions.Wait()
	if s == nil {
		return
	}
	s.mu.Lock()
	s.holder.detachedAt = time.Now()
	s.holder.expiry = time.AfterFunc(s.holder.ttl, s.expire)
	s.mu.Unlock()
}

// await returns when the session is restored.
func (s *Session) await() {
	if s.restored != nil {
		s.restored()
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
// is known to be gone. It does not call ready after a panic: while this program ends, a client would be
// told that the process is unknown, and would give it up.
func (p *restoredProcess) run(ready func()) {
	if p.start != nil {
		pointRestoring.PassedBy(p.start.id)
	}
	switch {
	case p.session == nil:
		ready()
		p.kill()
	case p.slot.LogEnded.Load() != 0:
		p.adoptLeftovers()
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
	ready()
}

// close closes this program's copies of the descriptors.
func (p *restoredProcess) close() {
	for _, files := range []map[proc.Which]*os.File{p.files, p.launcher, {heldSpool: p.spool}} {
		for _, f := range files {
			f.Close() // of nil, it does nothing
		}
	}
}

// kill ends a process that belongs to no session.
func (p *restoredProcess) kill() {
	p.spool.Close() // of nil, it does nothing
	closeAll(p.launcher)
	procs, kept := p.table.config.Launch.Procs, p.table.config.Kept
	child, err := procs.Adopt(p.table.ctx, proc.Adoption{Spec: proc.Spec{Slot: p.slot}, Files: p.files, Closed: true})
	if err != nil {
		procs.Discard(p.slot)
		return
	}
	child.Release(func() {
		if p.start != nil {
			kept.Arena.Journal().Drop(p.start.notes()...)
		}
	})
	child.Kill()
}

func closeAll(files map[proc.Which]*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// adoptLeftovers takes over what a forgotten command has left running.
func (p *restoredProcess) adoptLeftovers() {
	process := &Process{session: p.session, record: p.record()}
	closeAll(p.launcher)
	child, err := p.table.config.Launch.Procs.Adopt(p.table.ctx, proc.Adoption{Spec: proc.Spec{Slot: p.slot, Owner: p.session.OwnedBy()}, Files: p.files, Closed: true})
	if err != nil {
		process.discard(nil)
		return
	}
	process.release(child)
	p.session.keepLeftovers(child)
}

func (p *restoredProcess) record() *slotRecord {
	return &slotRecord{p.table.config.Kept, p.slot, p.start.note, p.start.policies}
}

// reopen makes the process with its log.
func (p *restoredProcess) reopen() (*Process, error) {
	var params wire.StartParams
	if err := wire.Decode(p.start.params, &params); err != nil {
		return nil, fmt.Errorf("parameters of the start: %w", err)
	}
	process := p.session.newProcess(&params)
	if at := p.slot.StartedAt.Load(); at != 0 {
		process.began = time.Unix(0, int64(at))
	}
	command, err := launch.Check(&params)
	if err != nil {
		return nil, err
	}
	process.setCommand(command)
	process.record = p.record()
	process.writes.record = process.record
	for _, a := range p.start.done {
		if p.start.tookEffect(a, p.slot.Input().Writes()) {
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
	child, err := s.launcher.Adopt(p.table.ctx, launch.Found{Command: process.Command, Slot: p.slot, Log: process.Log, Files: p.files, LauncherFiles: p.launcher, Policy: p.start.policy})
	switch {
	case errors.Is(err, proc.ErrNeverStarted):
		s.log.Info("a command was not started before the server was replaced", "process", process.ID)
	case err != nil:
		s.log.Error("a process is lost: it cannot be taken over", "process", process.ID, "err", err)
	}
	_ = s.finishStart(process, child, err) // the client learns it when it repeats the start
}
