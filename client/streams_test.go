package client_test

import (
	"errors"
	"io"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// A closed reader returns an error and none of the bytes that it had taken before.
func TestClosedReader(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "o1 o2 x3 c4")...)
	<-p.Done()
	r := p.Output()
	if n, err := r.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Fatalf("Read: %d, %v", n, err)
	}
	r.Close()
	for range 2 {
		if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, client.ErrReaderClosed) {
			t.Errorf("Read after Close: %d bytes, %v", n, err)
		}
	}
	if n, err := r.WriteTo(io.Discard); n != 0 || !errors.Is(err, client.ErrReaderClosed) {
		t.Errorf("WriteTo after Close: %d bytes, %v", n, err)
	}
}

// A reader that is closed at the end of the output returns ErrReaderClosed, not io.EOF.
func TestReaderClosedAtTheEnd(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "o1 x2 c3")...)
	r := p.Output()
	if got := whole(t, r); got != "1;" {
		t.Errorf("output %q", got)
	}
	r.Close()
	if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, client.ErrReaderClosed) {
		t.Errorf("Read after Close: %d bytes, %v", n, err)
	}
}

// If a writer closes the reader during WriteTo, it gets no more bytes.
func TestReaderClosedWhileCopying(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "o1 o2 x3 c4")...)
	r := p.Output()
	got := ""
	n, err := io.Copy(writerFunc(func(b []byte) (int, error) {
		got += string(b)
		return len(b), r.Close()
	}), r)
	if n != 2 || got != "1;" || !errors.Is(err, client.ErrReaderClosed) {
		t.Errorf("copied %q in %d bytes, %v", got, n, err)
	}
}

// Next returns ErrSubscriptionClosed after Close, also if it was waiting.
func TestClosedSubscription(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "o1")...)
	sub := p.Subscribe()
	if _, err := sub.Next(tethertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := sub.Next(tethertest.Within(t))
		waiting <- err
	}()
	sub.Close()
	for _, err := range []error{<-waiting, second(sub.Next(tethertest.Within(t)))} {
		if !errors.Is(err, client.ErrSubscriptionClosed) {
			t.Errorf("Next after Close: %v", err)
		}
	}
}
