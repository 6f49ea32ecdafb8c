package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/proc"
)

// A pipe collects what is written; held back, it does not tell.
type pipe struct {
	text  strings.Builder
	hold  bool
	held  []func(error)
	error error
}

func (p *pipe) send(data []byte, done func(error)) {
	if p.error == nil {
		p.text.Write(data)
	}
	if p.hold {
		p.held = append(p.held, done)
		return
	}
	done(p.error)
}

// try writes and returns the outcome; ok is false if there is none yet.
func (p *pipe) try(w *writes, id, text string) (err error, ok bool) {
	w.do(id, []byte(text), p.send, func(e error) {
		if ok {
			panic("told twice")
		}
		err, ok = e, true
	})
	return err, ok
}

func TestRepeatedWriteHappensOnce(t *testing.T) {
	var w writes
	var p pipe
	for range 3 {
		if err, ok := p.try(&w, "a", "x"); err != nil || !ok {
			t.Errorf("write: %v, %v", err, ok)
		}
	}
	if err, _ := p.try(&w, "a", "y"); !errors.Is(err, ErrWriteReused) {
		t.Errorf("other bytes: %v", err)
	}
	long := strings.Repeat("i", 1000)
	for range 2 {
		p.try(&w, long, "z")
	}
	if err, _ := p.try(&w, long, "y"); !errors.Is(err, ErrWriteReused) || !strings.Contains(err.Error(), long) {
		t.Errorf("other bytes with a long id: %v", err)
	}
	if p.text.String() != "xz" {
		t.Errorf("wrote %q", &p.text)
	}
}

func TestRepeatOfAWaitingWriteLearnsHowItEnds(t *testing.T) {
	for _, want := range []error{nil, proc.ErrTerminated} {
		var w writes
		p := pipe{hold: true}
		told := 0
		done := func(err error) {
			told++
			if err != want {
				t.Errorf("told %v, want %v", err, want)
			}
		}
		w.do("a", []byte("x"), p.send, done)
		w.do("a", []byte("x"), p.send, done)
		if err, ok := p.try(&w, "a", "y"); !ok || !errors.Is(err, ErrWriteReused) {
			t.Errorf("other bytes while waiting: %v, %v", err, ok)
		}
		if told != 0 {
			t.Error("told before it was known")
		}
		p.held[0](want)
		if told != 2 || p.text.String() != "x" {
			t.Errorf("%d were told, %q was written", told, &p.text)
		}
	}
}

func TestFailedWriteMayBeTriedAgain(t *testing.T) {
	var w writes
	p := pipe{error: proc.ErrStdinClosed}
	if err, _ := p.try(&w, "1", "x"); err == nil {
		t.Fatal("no error")
	}
	p.error = nil
	if err, _ := p.try(&w, "1", "y"); err != nil || p.text.String() != "y" {
		t.Errorf("second try: %v, wrote %q", err, &p.text)
	}
}

func TestCountingClientIsProtectedForEver(t *testing.T) {
	var w writes
	var p pipe
	const n = 3 * rememberedWrites
	for i := range n {
		p.try(&w, fmt.Sprint(i+1), "x")
	}
	for _, id := range []int{1, 2, rememberedWrites, n - rememberedWrites, n} {
		if err, ok := p.try(&w, fmt.Sprint(id), "x"); err != nil || !ok {
			t.Errorf("repeat of %d: %v", id, err)
		}
	}
	if p.text.Len() != n {
		t.Errorf("%d writes, want %d", p.text.Len(), n)
	}
	if len(w.byID) > rememberedWrites {
		t.Errorf("%d ids are remembered", len(w.byID))
	}
}

func TestOtherClientsAreProtectedForManyWrites(t *testing.T) {
	for _, first := range []string{"2", "01", "a"} {
		var w writes
		var p pipe
		p.try(&w, first, "x")
		for i := range rememberedWrites - 1 {
			p.try(&w, fmt.Sprint(i+10), "x")
		}
		p.try(&w, first, "x")
		if p.text.Len() != rememberedWrites {
			t.Errorf("%s: %d writes", first, p.text.Len())
		}
		p.try(&w, "new", "x") // pushes out the first
		p.try(&w, first, "x")
		if p.text.Len() != rememberedWrites+2 {
			t.Errorf("%s: a number that was never counted is taken for a repeat", first)
		}
	}
}
