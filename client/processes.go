package client

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tetherexec/tether/internal/wake"
	"github.com/tetherexec/tether/wire"
)

// maxFinals is how many last acknowledgements are remembered.
const maxFinals = 1024

// A processTable has the processes of a client that may still have events.
type processTable struct {
	kept *atomic.Int64 // bytes in the logs of all processes
	wake wake.Signal   // there is an incomplete process

	mu         sync.Mutex
	byID       map[string]*Process
	failure    error             // if set, no process is added any more
	incomplete map[*Process]bool // processes that miss an event
	finals     []wire.AckParams  // acknowledgements of closed processes, to be sent again on a new connection
}

func newProcessTable() processTable {
	return processTable{
		kept: new(atomic.Int64), wake: wake.New(),
		byID: make(map[string]*Process), incomplete: make(map[*Process]bool),
	}
}

// add adds a process, so that its events find it.
func (t *processTable) add(p *Process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.failure != nil:
		return t.failure
	case t.byID[p.id] != nil:
		return fmt.Errorf("session already registered for process %s", p.id)
	}
	t.byID[p.id] = p
	// An acknowledgement of an earlier process with this id must not be sent again.
	t.finals = slices.DeleteFunc(t.finals, func(a wire.AckParams) bool { return a.ProcessID == p.id })
	return nil
}

// find returns the process with an id; nil if there is none.
func (t *processTable) find(id string) *Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// findBytes is find without a copy of the id: each piece of output is looked up.
func (t *processTable) findBytes(id []byte) *Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[string(id)]
}

// all returns the processes.
func (t *processTable) all() []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byID))
}

// remove removes a process. Its id may be used again.
func (t *processTable) remove(p *Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[p.id] == p {
		delete(t.byID, p.id)
	}
}

// close removes all processes and returns them. No process can be added any more.
func (t *processTable) close(err error) []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Collect(maps.Values(t.byID))
	t.failure = err
	clear(t.byID)
	return all
}

// addFinal remembers the last acknowledgement of a process.
func (t *processTable) addFinal(a wire.AckParams) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.finals) == maxFinals {
		t.finals = t.finals[1:]
	}
	t.finals = append(t.finals, a)
}

// lastFinals returns the last acknowledgements that are remembered.
func (t *processTable) lastFinals() []wire.AckParams {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.finals)
}

// setIncomplete notes whether a process misses an event.
func (t *processTable) setIncomplete(p *Process, incomplete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !incomplete {
		delete(t.incomplete, p)
		return
	}
	t.incomplete[p] = true
	t.wake.Send()
}

// allIncomplete returns the processes that miss an event.
func (t *processTable) allIncomplete() []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.incomplete))
}
