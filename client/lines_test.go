package client_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// Tests of a transport without pings run on a clock of their own: the server's end is scripted, and no process is started.

// overLines has short limits, and linesTime is much longer than each of them.
var overLines = client.Options{Silence: time.Second, FollowUp: time.Second}

const linesTime = 20 * time.Second

// Answers to initialize: of a server that executes one request after the other, as the reference does, and of one that
// answers a status while other requests wait.
var (
	serial     = `{"sessionId":"S"}`
	concurrent = scripted.Hello(`"concurrent"`)
)

// startedOverLines opens a session with one process on a server that answers initialize like this.
func startedOverLines(t *testing.T, s *scripted.Server, hello string, o client.Options) (*client.Client, *client.Process, *scripted.Peer) {
	t.Helper()
	var first *scripted.Peer
	wait := scripted.Play(t, func() {
		first = s.Accept()
		first.Greet(hello)
		first.Begin()
	})
	c, err := client.DialLines(tethertest.Within(t), s.Connect, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	wait()
	return c, p, first
}

// sendNotes sends notifications until the given time has passed or the client is gone.
func sendNotes(p *scripted.Peer, d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; time.Sleep(overLines.Silence / 20) { // on the test's own clock
		p.Say(`{"method":"new/thing","params":{}}`)
	}
}

// Over a transport without pings, the client waits for a slow answer as long as the server
// sends anything.
func TestSlowAnswerOverLines(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*scripted.Peer){
		"status is answered": func(p *scripted.Peer) {
			for range 20 {
				p.Serve("environment/status", `{"status":"ready"}`)
			}
		},
		"only output comes": func(p *scripted.Peer) {
			p.Expect("environment/status") // it is not answered
			sendNotes(p, linesTime)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, p, first := startedOverLines(t, scripted.NewLines(t), serial, overLines)
				wait := scripted.Play(t, func() {
					asked := first.Expect("process/read")
					meanwhile(first)
					first.Say(asked.Answer(scripted.ReadAnswer(1, false, false)))
				})
				oneLongRead(t, c, p)
				wait()
			})
		})
	}
}

// A server that executes one request after the other cannot answer anything else meanwhile.
// The connection is not replaced, although the server is silent.
func TestLongRequestOfSerialServerOverLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, p, first := startedOverLines(t, scripted.NewLines(t), serial, overLines)
		wait := scripted.Play(t, func() {
			asked, status := first.Expect("process/read"), first.Expect("environment/status")
			time.Sleep(linesTime) // on the test's own clock
			first.Say(asked.Answer(scripted.ReadAnswer(1, false, false)), status.Answer(`{"status":"ready"}`))
		})
		oneLongRead(t, c, p)
		wait()
	})
}

// oneLongRead reads from a process and expects that the connection is not replaced meanwhile.
func oneLongRead(t *testing.T, c *client.Client, p *client.Process) {
	t.Helper()
	if _, err := p.Read(tethertest.Within(t), client.ReadOptions{Wait: longWait}); err != nil {
		t.Error(err)
	}
	if n := c.Status().Connection; n != 1 {
		t.Errorf("%d connections", n)
	}
}

// If a server announces "concurrent", a status without an answer means that requests do not
// arrive, although output does.
func TestPipeDeadInOneDirection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted.NewLines(t)
		c, p, first := startedOverLines(t, s, concurrent, overLines)
		stop := make(chan struct{})
		talk := scripted.Play(t, func() {
			first.Expect("process/read")
			first.Expect("environment/status")
			for {
				select {
				case <-stop:
					return
				default:
					sendNotes(first, overLines.Silence)
				}
			}
		})
		defer talk()
		defer close(stop)
		resumed := scripted.Play(t, func() {
			again := s.Accept()
			again.Greet(concurrent)
			again.Serve("process/read", scripted.ReadAnswer(1, false, false)) // of the resume
			again.Serve("process/read", scripted.ReadAnswer(1, false, false))
		})
		if _, err := p.Read(tethertest.Within(t), client.ReadOptions{Wait: longWait}); err != nil {
			t.Error(err)
		}
		resumed()
		if n := c.Status().Connection; n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// A silent server is noticed even if all slots for calls are taken.
func TestSilentServerWithManyCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted.NewLines(t)
		c, p, first := startedOverLines(t, s, concurrent, client.Options{})
		const most = 1024
		wait := scripted.Play(t, func() {
			for range most {
				first.Expect("process/read")
			}
			first.Expect("environment/status")
			if _, more := first.MayHear(); more {
				panic("the client sends more requests than it has slots for")
			}
			again := s.Accept()
			again.Greet(concurrent)
			for range most + 1 { // one of them is of the resume
				again.Serve("process/read", scripted.ReadAnswer(1, false, false))
			}
		})
		var calls sync.WaitGroup
		for range most {
			calls.Go(func() {
				if _, err := p.Read(tethertest.Within(t), client.ReadOptions{Wait: longWait}); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		wait()
		if n := c.Status().Connection; n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}
