package session

import (
	"errors"
	"fmt"
	"testing"
)

// A connection controls a limited number of processes. Those that another connection has taken, or that have closed, do not count.
func TestControlIsLimited(t *testing.T) {
	table := newTable(t, newSupervisor(t))
	s := open(t, table, Options{}).Session
	child := finished(t)
	for i := range MaxControlled + 3 {
		adopt(s, fmt.Sprint(i), child)
	}
	var c, other Controller
	for i := range MaxControlled {
		if err := c.Take(s, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	one, two := fmt.Sprint(MaxControlled), fmt.Sprint(MaxControlled+1)
	if err := c.Take(s, one); !errors.Is(err, ErrLimit) {
		t.Errorf("one more: %v", err)
	}
	if err := errors.Join(c.Take(s, "7"), other.Take(s, "7"), c.Take(s, one)); err != nil {
		t.Errorf("another connection has taken one: %v", err)
	}
	if p, err := s.Find("8"); err != nil {
		t.Error(err)
	} else {
		p.Log.Close()
	}
	if err := c.Take(s, two); err != nil {
		t.Errorf("one has closed: %v", err)
	}
	c.End()
	for id, want := range map[string]*Controller{"0": nil, "7": &other, one: nil} {
		if p, err := s.Find(id); err != nil || p.Controller() != want {
			t.Errorf("%s is controlled by %p, %v", id, p.Controller(), err)
		}
	}
	if err := c.Take(s, "1"); err == nil {
		t.Error("the connection has ended, and takes control")
	}
}
