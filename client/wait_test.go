package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// finished starts a process that has printed "1;2;" and ended.
func finished(t *testing.T, o client.Options) *client.Process {
	t.Helper()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, o)
	first.Say(scripted.Events("P", "o1 o2 x3 c4")...)
	<-p.Done()
	return p
}

var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Wait returns after a copy in another goroutine has written everything.
func TestWaitForCopy(t *testing.T) {
	t.Parallel()
	p := finished(t, client.WithShortTimeouts(client.Options{}))
	writing, goOn := make(chan struct{}), make(chan struct{})
	var out bytes.Buffer
	go io.Copy(writerFunc(func(b []byte) (int, error) {
		if out.Len() == 0 {
			close(writing)
		}
		<-goOn
		return out.Write(b)
	}), p.Output())
	<-writing
	if exit, err := p.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait beside a writer that is busy: %+v, %v", exit, err)
	}
	close(goOn)
	if exit, err := p.Wait(tethertest.Within(t)); exit.Code != 0 || err != nil || out.String() != "1;2;" {
		t.Errorf("Wait: %+v, %v; copied %q", exit, err, out.String())
	}
}

// Wait also waits for a copy whose goroutine starts only after the call of Wait.
func TestWaitForLateCopy(t *testing.T) {
	t.Parallel()
	p := finished(t, client.Options{})
	var out bytes.Buffer
	r, begin := p.Output(), make(chan struct{})
	go func() {
		<-begin
		io.Copy(&out, r)
	}()
	if exit, err := p.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait beside a reader that has not begun: %+v, %v", exit, err)
	}
	close(begin)
	if exit, err := p.Wait(tethertest.Within(t)); exit.Code != 0 || err != nil || out.String() != "1;2;" {
		t.Errorf("Wait: %+v, %v; copied %q", exit, err, out.String())
	}
}

// The same with a real command, in the form of the documentation.
func TestWaitAndPrint(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	for range 20 {
		p := start(t, c, sh("seq 5000; exit 3"))
		var out bytes.Buffer
		go io.Copy(&out, p.Output())
		exit, err := p.Wait(tethertest.Within(t))
		if lines := strings.Count(out.String(), "\n"); exit.Code != 3 || err != nil || lines != 5000 {
			t.Fatalf("Wait: %+v, %v; %d lines", exit, err, lines)
		}
	}
}

// If a reader stops in the middle, Wait returns after a while, with an error.
func TestWaitBesideUnreadOutput(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*client.Process){
		"never read": func(p *client.Process) { p.Output() },
		"half read":  func(p *client.Process) { p.Output().Read(make([]byte, 1)) },
		"an event":   func(p *client.Process) { p.Subscribe().Next(context.Background()) },
		"writer fails": func(p *client.Process) {
			io.Copy(writerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe }), p.Output())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := finished(t, client.WithShortTimeouts(client.Options{}))
			leave(p)
			if exit, err := p.Wait(tethertest.Within(t)); exit.Code != 0 || !errors.Is(err, client.ErrUnread) {
				t.Errorf("Wait: %+v, %v", exit, err)
			}
		})
	}
}

// Readers that are closed, or at their end, do not delay Wait.
func TestWaitBesideFinishedReaders(t *testing.T) {
	t.Parallel()
	p := finished(t, client.Options{})
	p.Output().Close()
	p.Subscribe().Close()
	whole(t, p.Output())
	for sub := p.Subscribe(); ; {
		if e, err := sub.Next(tethertest.Within(t)); err != nil || e.Kind == client.Closed {
			break
		}
	}
	if exit, err := p.Wait(ended); exit.Code != 0 || err != nil {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
}

// A reader that has met a gap does not delay Wait.
func TestWaitBesideGap(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	r := p.Output()
	first.Say(scripted.Events("P", "o1")...)
	wait := scripted.Play(t, func() {
		first.Cut()
		again := s.Accept()
		again.Welcome("S")
		again.Serve("process/read", scripted.ReadAnswer(6, true, true, 3))
	})
	if b, err := io.ReadAll(r); string(b) != "1;" || !errors.Is(err, client.ErrGap) {
		t.Errorf("read %q, %v", b, err)
	}
	wait()
	if exit, err := p.Wait(tethertest.Within(t)); exit.Code != 0 || err != nil {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
	var out bytes.Buffer
	if exit, err := p.CopyOutput(tethertest.Within(t), &out, nil); exit.Code != 0 || !errors.Is(err, client.ErrGap) || out.String() != "1;3;" {
		t.Errorf("CopyOutput: %+v, %v; copied %q", exit, err, out.String())
	}
}

func TestCopyOutput(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	var stdout, stderr bytes.Buffer
	exit, err := start(t, c, sh("echo one; echo two >&2; exit 3")).CopyOutput(tethertest.Within(t), &stdout, &stderr)
	if exit.Code != 3 || err != nil || stdout.String() != "one\n" || stderr.String() != "two\n" {
		t.Errorf("CopyOutput: %+v, %v; copied %q and %q", exit, err, stdout.String(), stderr.String())
	}
	full := writerFunc(func([]byte) (int, error) { return 0, io.ErrShortWrite })
	p := start(t, c, sh("echo one"))
	if _, err := p.CopyOutput(tethertest.Within(t), full, nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("CopyOutput to a full disk: %v", err)
	}
	if exit, err := p.Wait(tethertest.Within(t)); exit.Code != 0 || err != nil {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
}

// If the session is lost, readers get the output that has arrived, and Wait the reason.
func TestWaitForReadersOfLostProcess(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "o1")...)
	wait := scripted.Play(t, func() {
		first.Cut()
		again := s.Accept()
		again.Say(again.Expect("initialize").Refuse(-32600, "unknown session id S"))
	})
	var out bytes.Buffer
	go io.Copy(&out, p.Output())
	if _, err := p.Wait(tethertest.Within(t)); !errors.Is(err, client.ErrSessionLost) || out.String() != "1;" {
		t.Errorf("Wait: %v; copied %q", err, out.String())
	}
	wait()
	if _, err := p.CopyOutput(tethertest.Within(t), &out, nil); !errors.Is(err, client.ErrSessionLost) || out.String() != "1;1;" {
		t.Errorf("CopyOutput: %v; copied %q", err, out.String())
	}
}
