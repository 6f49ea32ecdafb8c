package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// A written is a process/write that the scripted server has received.
type written struct {
	scripted.Message
	ID   string `json:"writeId"`
	Data []byte `json:"chunk"`
}

func hearWrite(p *scripted.Peer) (w written) {
	w.Message = p.Expect("process/write")
	if err := json.Unmarshal(w.Params, &w); err != nil {
		panic(err)
	}
	return w
}

func (w written) accept() string { return w.Answer(`{"status":"accepted"}`) }

// startedTether is started with a server that keeps the order of requests as tether does, and
// has no other feature of tether.
func startedTether(t *testing.T, s *scripted.Server) (*client.Process, *scripted.Peer) {
	t.Helper()
	var first *scripted.Peer
	wait := scripted.Play(t, func() {
		first = s.Accept()
		first.WelcomeTether()
		first.Begin()
	})
	p := start(t, dial(t, s.URL(), client.Options{}), client.Command{Argv: []string{"x"}, ID: "P"})
	wait()
	return p, first
}

// Input of 1 MiB and more is on its way before the first answer comes.
func TestInputWindow(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	p, first := startedTether(t, s)
	data := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
	var got []byte
	wait := scripted.Play(t, func() {
		var unanswered []written
		for len(got) < 1<<20 {
			w := hearWrite(first)
			unanswered, got = append(unanswered, w), append(got, w.Data...)
		}
		for _, w := range unanswered {
			first.Say(w.accept())
		}
		for len(got) < len(data) {
			w := hearWrite(first)
			got = append(got, w.Data...)
			first.Say(w.accept())
		}
	})
	in := p.Stdin()
	for piece := range bytesChunk(data, 32<<10) { // as io.Copy does
		if _, err := in.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.Close(); !errors.Is(err, client.ErrUnsupported) { // after all answers
		t.Errorf("Close: %v", err)
	}
	wait()
	if !bytes.Equal(got, data) {
		t.Errorf("%d bytes arrived of %d, or others", len(got), len(data))
	}
}

// Small writes that have to wait become one request. When its connection is lost, the same
// request is sent again.
func TestSmallWritesAreCollected(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	p, first := startedTether(t, s)
	const single = 64 // requests that may be unanswered
	all, wrote := bytes.Repeat([]byte("x"), 1000), make(chan struct{})
	again := make(chan *scripted.Peer, 1)
	wait := scripted.Play(t, func() {
		<-wrote // without an answer
		got := 0
		for range single {
			w := hearWrite(first)
			got += len(w.Data)
			first.Say(w.accept())
		}
		rest := hearWrite(first)
		if got != single || len(rest.Data) != len(all)-single {
			t.Errorf("heard %d bytes in %d requests, then %d bytes", got, single, len(rest.Data))
		}
		first.Cut()
		next := s.Accept()
		next.WelcomeTether()
		next.Serve("process/read", scripted.ReadAnswer(1, false, false))
		repeated := hearWrite(next)
		if repeated.ID != rest.ID || !bytes.Equal(repeated.Data, rest.Data) {
			t.Errorf("sent again: %s with %d bytes, was %s with %d", repeated.ID, len(repeated.Data), rest.ID, len(rest.Data))
		}
		next.Say(repeated.accept())
		again <- next
	})
	in := p.Stdin()
	for i := range all {
		if n, err := in.Write(all[i : i+1]); n != 1 || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	close(wrote)
	if err := in.Close(); !errors.Is(err, client.ErrUnsupported) {
		t.Errorf("Close: %v", err)
	}
	wait()
	// A write that need not wait is sent at once.
	next := <-again
	wait = scripted.Play(t, func() {
		w := hearWrite(next)
		if string(w.Data) != "alone" {
			t.Errorf("heard %q", w.Data)
		}
		next.Say(w.accept())
	})
	if err := p.Write(tethertest.Within(t), []byte("alone")); err != nil {
		t.Error(err)
	}
	wait()
}

// Each caller gets the outcome of its own input, also if writes were collected.
func TestCollectedWritesFail(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	p, first := startedTether(t, s)
	in, other, wrote := p.Stdin(), p.Stdin(), make(chan struct{})
	wait := scripted.Play(t, func() {
		<-wrote
		for range 64 {
			first.Say(hearWrite(first).accept())
		}
		first.Say(hearWrite(first).Answer(`{"status":"stdinClosed"}`))
	})
	for range 64 {
		io.WriteString(in, "x")
	}
	io.WriteString(other, "y")
	io.WriteString(in, "z")
	close(wrote)
	for name, w := range map[string]io.WriteCloser{"first": in, "other": other} {
		if err := w.Close(); !errors.Is(err, client.ErrStdinClosed) {
			t.Errorf("%s: Close: %v", name, err)
		}
		if _, err := io.WriteString(w, "more"); !errors.Is(err, client.ErrStdinClosed) {
			t.Errorf("%s: Write: %v", name, err)
		}
	}
	wait()
}

// A server that may execute requests in any order gets one request with input at a time, of
// up to 1 MiB.
func TestInputOneAtATime(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	data := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
	var got []byte
	var sizes []int
	var submitted atomic.Int64
	held := make(chan struct{})
	wait := scripted.Play(t, func() {
		for len(got) < len(data) {
			w := hearWrite(first)
			got, sizes = append(got, w.Data...), append(sizes, len(w.Data))
			if len(sizes) == 2 { // it is not answered until 1 MiB waits behind it
				tethertest.Eventually(t, func() error {
					if n := submitted.Load() - int64(len(got)); n < 1<<20 {
						return fmt.Errorf("%d bytes wait", n)
					}
					return nil
				})
				close(held)
				first.Serve("process/read", scripted.ReadAnswer(1, false, false)) // the next request is not a write
			}
			first.Say(w.accept())
		}
	})
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() {
		<-held
		p.Read(tethertest.Within(t), client.ReadOptions{})
	})
	in := p.Stdin()
	for piece := range bytesChunk(data, 32<<10) {
		if _, err := in.Write(piece); err != nil {
			t.Fatal(err)
		}
		submitted.Add(int64(len(piece)))
	}
	in.Close()
	wait()
	if !bytes.Equal(got, data) || sizes[2] != 1<<20 {
		t.Errorf("%d bytes arrived of %d, or others, in %d", len(got), len(data), sizes)
	}
}

// If a piece of input was refused and the next one accepted, the write still fails.
func TestRefusedInputIsAnError(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() {
		first.Say(first.Expect("process/write").Answer(`{"status":"starting"}`))
		first.Say(first.Expect("process/write").Answer(`{"status":"accepted"}`))
	})
	if err := p.Write(tethertest.Within(t), make([]byte, 200<<10)); err == nil {
		t.Error("the write has no error")
	}
	wait()
}

// If too many calls wait for answers, input waits for a slot instead of being refused.
func TestInputWaitsForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted.NewPipes(t)
		_, p, first := started(t, s, client.Options{Connect: s.Connect})
		const most = 1024
		reads := make(chan scripted.Message, most)
		wait := scripted.Play(t, func() {
			for range most {
				reads <- first.Expect("process/read")
			}
		})
		var calls sync.WaitGroup
		ctx, cancel := context.WithCancel(tethertest.Within(t))
		for range most {
			calls.Go(func() { p.Read(ctx, client.ReadOptions{Wait: longWait}) })
		}
		wait()
		written := make(chan error, 1)
		go func() { written <- p.Write(tethertest.Within(t), []byte("x")) }()
		synctest.Wait()
		if len(written) > 0 {
			t.Errorf("Write: %v", <-written)
		}
		wait = scripted.Play(t, func() {
			first.Say((<-reads).Answer(scripted.ReadAnswer(1, false, false)))
			first.Say(first.Expect("process/write").Answer(`{"status":"accepted"}`))
		})
		if err := <-written; err != nil {
			t.Error(err)
		}
		wait()
		cancel()
		calls.Wait()
	})
}
