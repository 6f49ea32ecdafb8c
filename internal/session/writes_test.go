package session

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/proc"
)

// A pipe collects written bytes. While held, it does not report them as written.
type pipe struct {
	text  strings.Builder
	hold  bool
	held  []func(error)
	error error
}

func (p *pipe) send(data []byte, _ func(uint64) error, done func(error)) {
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
			panic("the outcome was reported twice")
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

func TestRepeatOfAPendingWriteGetsItsOutcome(t *testing.T) {
	for _, want := range []error{nil, proc.ErrTerminated} {
		var w writes
		p := pipe{hold: true}
		told := 0
		done := func(err error) {
			told++
			if err != want {
				t.Errorf("outcome %v, want %v", err, want)
			}
		}
		w.do("a", []byte("x"), p.send, done)
		w.do("a", []byte("x"), p.send, done)
		if err, ok := p.try(&w, "a", "y"); !ok || !errors.Is(err, ErrWriteReused) {
			t.Errorf("other bytes while waiting: %v, %v", err, ok)
		}
		if told != 0 {
			t.Error("the outcome was reported before it was known")
		}
		p.held[0](want)
		if told != 2 || p.text.String() != "x" {
			t.Errorf("%d outcomes were reported, %q was written", told, &p.text)
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

// Actions share the memory of writes, but not their ids.
func TestActionsHappenOnce(t *testing.T) {
	var w writes
	var p pipe
	done := 0
	act := func(func(uint64) error) error { done++; return nil }
	for range 3 {
		if err := w.once("1", "signal 2", act); err != nil {
			t.Error(err)
		}
	}
	if err := w.once("1", "signal 15", act); !errors.Is(err, ErrOnceReused) || done != 1 {
		t.Errorf("the id of another action: %v, done %d times", err, done)
	}
	if err, ok := p.try(&w, "1", "x"); err != nil || !ok || p.text.String() != "x" {
		t.Errorf("a write with the same id: %v, %v, wrote %q", err, ok, &p.text)
	}
	failure := errors.New("no")
	if err := w.once("2", "a", func(func(uint64) error) error { return failure }); err != failure {
		t.Error(err)
	}
	if err := w.once("2", "b", act); err != nil || done != 2 {
		t.Errorf("after a failure: %v, done %d times", err, done)
	}
	for i := range rememberedWrites {
		w.once(fmt.Sprint("n", i), "a", act)
	}
	if len(w.byID) > rememberedWrites {
		t.Errorf("%d ids are remembered", len(w.byID))
	}
	p.try(&w, "1", "x") // its id was removed by the actions, but it was the first of a count
	if p.text.String() != "x" {
		t.Errorf("wrote %q", &p.text)
	}
}

// An action may be what lets a pending write finish.
func TestActionSettlesAWrite(t *testing.T) {
	var w writes
	p := pipe{hold: true}
	p.try(&w, "1", "x")
	if err := w.once("a", "close", func(func(uint64) error) error { p.held[0](nil); return nil }); err != nil {
		t.Error(err)
	}
}

func TestRepeatOfAnActionWaitsForIt(t *testing.T) {
	var w writes
	begun, goOn, repeated := make(chan struct{}), make(chan struct{}), make(chan error)
	first := make(chan error)
	go func() {
		first <- w.once("a", "x", func(func(uint64) error) error { close(begun); <-goOn; return nil })
	}()
	<-begun
	go func() { repeated <- w.once("a", "x", func(func(uint64) error) error { return errors.New("twice") }) }()
	for waiting := false; !waiting; {
		w.mu.Lock()
		waiting = len(w.byID[writeKey{"a", true}].waiting) == 1
		w.mu.Unlock()
		runtime.Gosched()
	}
	close(goOn)
	if err := errors.Join(<-first, <-repeated); err != nil {
		t.Error(err)
	}
}

func TestNumberedWritesAreNeverRepeated(t *testing.T) {
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
		p.try(&w, "new", "x") // removes the first
		p.try(&w, first, "x")
		if p.text.Len() != rememberedWrites+2 {
			t.Errorf("%s: a number that was never counted is taken for a repeat", first)
		}
	}
}

// Small pending writes cost more than their bytes.
func TestWaitingWritesAreBounded(t *testing.T) {
	var w writes
	p := pipe{hold: true}
	const most = 1 << 20 // requests of that many connections
	waiting := 0
	for ; waiting < most; waiting++ {
		if err, told := p.try(&w, fmt.Sprint("w", waiting), ""); told {
			if !errors.Is(err, ErrLimit) {
				t.Errorf("write %d: %v", waiting, err)
			}
			break
		}
	}
	if waiting == most || waiting < 4*4096 {
		t.Errorf("%d writes wait", waiting)
	}
	for _, done := range p.held {
		done(nil)
	}
	if w.cost != 0 {
		t.Errorf("no write waits, but the cost is %d", w.cost)
	}
}

// A client that reconnects again and again repeats its write each time; the newest repeat
// gets the outcome.
func TestRepeatsOfAWaitingWriteAreBounded(t *testing.T) {
	var w writes
	p := pipe{hold: true}
	p.try(&w, "a", "x")
	told := make([]error, 1000)
	for i := range told {
		told[i] = errors.New("no outcome")
		w.do("a", []byte("x"), p.send, func(err error) { told[i] = err })
	}
	if n := len(w.byID[writeKey{id: "a"}].waiting); n > 100 {
		t.Errorf("%d repeats wait", n)
	}
	p.held[0](nil)
	if told[0] == nil || !errors.Is(told[0], ErrLimit) || told[len(told)-1] != nil {
		t.Errorf("the outcome of the first is %v, of the last %v", told[0], told[len(told)-1])
	}
}
