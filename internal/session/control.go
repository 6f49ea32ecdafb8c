package session

import (
	"context"
	"fmt"
	"maps"
	"sync"
)

// A Controller is a connection as the one whose user types to processes. That is shown to observers and in lists, and has no other effect: every client may still write
// to the process. A process has one controller at most: the last that has taken it.
type Controller struct {
	Name string // for people; set before the first Take

	mu        sync.Mutex
	ended     bool
	processes map[*Process]struct{} // those that it has taken; another may have taken some of them since
}

// MaxControlled is how many processes one connection can control at a time.
const MaxControlled = 64

// Take makes c the controller of a process whose output has not ended.
func (c *Controller) Take(s *Session, id string) error {
	p, err := s.Find(id)
	if err != nil {
		return err
	}
	if p.Log.State().Closed {
		return fmt.Errorf("process %s %w", id, ErrClosed)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return context.Canceled
	}
	maps.DeleteFunc(c.processes, func(p *Process, _ struct{}) bool { return p.controller.Load() != c || p.Log.State().Closed })
	if len(c.processes) >= MaxControlled && p.controller.Load() != c {
		return limitReached(MaxControlled, "processes that are controlled by one connection")
	}
	if c.processes == nil {
		c.processes = map[*Process]struct{}{}
	}
	c.processes[p] = struct{}{}
	if p.controller.Swap(c) != c {
		p.controllerChanged()
	}
	return nil
}

// Give ends the control of a process, if c has it.
func (c *Controller) Give(s *Session, id string) error {
	p, err := s.Find(id)
	if err == nil {
		c.give(p)
	}
	return err
}

func (c *Controller) give(p *Process) {
	if p.controller.CompareAndSwap(c, nil) {
		p.controllerChanged()
	}
}

// End ends all control at the end of the connection.
func (c *Controller) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for p := range c.processes {
		c.give(p)
	}
	c.processes = nil
}

// Controller is the present controller of the process; nil: there is none.
func (p *Process) Controller() *Controller { return p.controller.Load() }

// OnController lets the observation be told when the controller changes. changed must not wait.
func (o *Observation) OnController(changed func()) {
	s := o.Process.session
	s.mu.Lock()
	defer s.mu.Unlock()
	o.changed = changed
}

// controllerChanged tells the observers.
func (p *Process) controllerChanged() {
	p.session.mu.Lock()
	var told []func()
	for o := range p.observers {
		if o.changed != nil {
			told = append(told, o.changed)
		}
	}
	p.session.mu.Unlock()
	for _, changed := range told {
		changed()
	}
}
