package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scenario"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// The fault scenarios that need a scripted server, because no real server behaves so. Faults
// that a cable can cause are in package interop, with both servers.

// started plays the first part of most scenarios: a session with one process.
func started(t *testing.T, s *scripted.Server, o client.Options) (*client.Client, *client.Process, *scripted.Peer) {
	t.Helper()
	var first *scripted.Peer
	wait := scripted.Play(t, func() {
		first = s.Accept()
		first.Welcome("S")
		first.Begin()
	})
	c := dial(t, s.URL(), o)
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	wait()
	return c, p, first
}

// all reads the whole output.
func all(t *testing.T, p *client.Process) string {
	t.Helper()
	return whole(t, p.Output())
}

func whole(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("read %d bytes, then %v", len(b), err)
	}
	return string(b)
}

func wantOutput(t *testing.T, p *client.Process, want string) {
	t.Helper()
	wantRead(t, p.Output(), want)
}

// wantRead is for readers that exist before the output: a late reader would ask the server for
// output that the client does not keep.
func wantRead(t *testing.T, r io.Reader, want string) {
	t.Helper()
	if got := whole(t, r); got != want {
		t.Errorf("output %.100q of %d bytes, want %.100q of %d", got, len(got), want, len(want))
	}
}

// wantFailed waits until the process is lost and checks the reason.
func wantFailed(t *testing.T, p *client.Process, want string) error {
	t.Helper()
	_, err := p.Wait(tethertest.Within(t))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the process failed with %v, want %q", err, want)
	}
	return err
}

// Scenario F13.
func TestResumeAnsweredWithAnotherSession(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Cut()
	wait := scripted.Play(t, func() { s.Accept().Serve("initialize", `{"sessionId":"OTHER"}`) })
	err := wantFailed(t, p, "protocol error of the server: it has opened another session than the one to be resumed")
	wait()
	if !errors.Is(err, client.ErrSessionLost) {
		t.Errorf("%v is not ErrSessionLost", err)
	}
}

// forgotten is the text of the error if the server does not know the session.
const forgotten = "the server does not know the session any more: it was restarted, or there was no connection for too long; what ran in the session has ended"

// Scenario F14.
func TestResumeRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id   string
		code int
		text string
		want string
	}{{"F14", -32603, "broken", "broken"}, {"F06", -32600, "unknown session id S", forgotten}} {
		t.Run(scenario.Name(c.id), func(t *testing.T) {
			s := scripted.NewServer(t)
			_, p, first := started(t, s, client.Options{})
			first.Cut()
			wait := scripted.Play(t, func() {
				again := s.Accept()
				again.Say(again.Expect("initialize").Refuse(c.code, c.text))
			})
			err := wantFailed(t, p, "the connection was lost; the session could not be resumed: "+c.want)
			wait()
			if !errors.Is(err, client.ErrSessionLost) || errors.Is(err, client.ErrRecoveryTimeout) {
				t.Errorf("%v is not just ErrSessionLost", err)
			}
		})
	}
}

// While another connection has the session, the client asks for it again and again.
// Scenario F07.
func TestResumeWhileAttached(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Cut()
	wait := scripted.Play(t, func() {
		for range 5 {
			again := s.Accept()
			again.Say(again.Expect("initialize").Refuse(-32010, "session S is already attached to another connection"))
		}
		again := s.Accept()
		again.Welcome("S")
		again.Serve("process/read", scripted.ReadAnswer(4, true, true, 1))
	})
	wantOutput(t, p, "1;")
	wait()
}

// Scenario F15.
func TestCutBeforeCatchUp(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "o1")...)
	wait := scripted.Play(t, func() {
		first.Cut()
		for range 2 {
			again := s.Accept()
			again.Welcome("S")
			again.Expect("process/read")
			again.Cut()
		}
		again := s.Accept()
		again.Welcome("S")
		again.Serve("process/read", scripted.ReadAnswer(5, true, true, 2))
	})
	if got := all(t, p); got != "1;2;" {
		t.Errorf("output %q", got)
	}
	wait()
}

// Scenario F18.
func TestProcessForgottenByServer(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	c, p, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() { first.Begin() })
	other := start(t, c, client.Command{Argv: []string{"x"}, ID: "Q"})
	wait()
	first.Cut()
	wait = scripted.Play(t, func() {
		again := s.Accept()
		again.Welcome("S")
		for range 2 {
			switch m := again.Expect("process/read"); {
			case strings.Contains(string(m.Params), `"P"`):
				again.Say(m.Refuse(-32600, "unknown process id P"))
			default:
				again.Say(m.Answer(scripted.ReadAnswer(1, false, false)))
			}
		}
		again.Say(scripted.Events("Q", "o1 x2 c3")...)
	})
	wantFailed(t, p, "failed to recover process P: the server has no process P any more")
	wantOutput(t, other, "1;")
	wait()
}

// F22: late and doubled events do nothing. F23: a flood before the answer is taken.
func TestOldEventsAndFloodDuringResume(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	r := p.Output()
	first.Say(scripted.Events("P", "o1 o2")...)
	const flood = 5000
	wait := scripted.Play(t, func() {
		first.Cut()
		again := s.Accept()
		m := again.Expect("initialize")
		for seq := 1; seq <= flood; seq++ {
			again.Say(scripted.Events("P", fmt.Sprintf("o%d", seq))...)
		}
		again.Say(m.Answer(`{"sessionId":"S"}`))
		again.Expect("initialized")
		read := again.Expect("process/read")
		again.Say(scripted.Events("P", "o3 o2 o1")...)
		again.Say(read.Answer(scripted.ReadAnswer(flood+1, false, false)))
		again.Say(scripted.Events("P", fmt.Sprintf("x%d c%d", flood+1, flood+2))...)
	})
	var want strings.Builder
	for seq := 1; seq <= flood; seq++ {
		fmt.Fprintf(&want, "%d;", seq)
	}
	wantRead(t, r, want.String())
	wait()
}

// Messages that a server must not send. After each, the client resumes on a new connection,
// and nothing is lost.
// Scenarios F25 and F26.
func TestMalformedMessagesFromServer(t *testing.T) {
	t.Parallel()
	for name, garbage := range map[string]string{
		"F25 garbage":     `this is not JSON`,
		"F26 bad params":  `{"method":"process/output","params":{"processId":"P","seq":"two"}}`,
		"request id -1":   `{"id":-1,"method":"network/policyRequest","params":{}}`,
		"request id text": `{"id":"x","method":"network/policyRequest","params":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.NewServer(t)
			_, p, first := started(t, s, client.Options{})
			wait := scripted.Play(t, func() {
				first.Say(scripted.Events("P", "o1")...)
				first.Say(garbage)
				again := s.Accept()
				again.Welcome("S")
				again.Serve("process/read", scripted.ReadAnswer(5, true, true, 2))
			})
			wantOutput(t, p, "1;2;")
			wait()
		})
	}
}

// The client ignores messages that it does not know.
// Scenarios F27 and F28.
func TestUnknownMessagesFromServer(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	c, p, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() {
		first.Say(`{"method":"new/thing","params":{}}`, `{"id":999,"result":{}}`, `{"id":"x","result":{}}`)
		first.Say(scripted.Events("NOBODY", "o1")...)
		first.Say(`{"id":7,"method":"new/question","params":{}}`)
		m := first.Hear()
		if m.Error == nil || m.Error.Code != -32601 || m.Error.Message != "exec-server client does not implement `new/question` yet" {
			panic(fmt.Sprintf("answered %+v", m))
		}
		first.Say(`{"id":8,"method":"network/policyRequest","params":{"processId":"P","request":{"protocol":"tcp","host":"h","port":1}}}`)
		if m := first.Hear(); string(m.Result) != `{"decision":{"type":"deny","reason":"not_allowed"}}` {
			panic(string(m.Result))
		}
		first.Say(scripted.Events("P", "o1 x2 c3")...)
	})
	wantOutput(t, p, "1;")
	wait()
	if n := c.Status().Connection; n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A missing event is read after a while, although the connection is fine.
// Scenario F47.
func TestMissingEventIsRead(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.WithShortTimeouts(client.Options{}))
	wait := scripted.Play(t, func() {
		first.Say(scripted.Events("P", "o1 o3 x4 c5")...)
		first.Serve("process/read", scripted.ReadAnswer(6, true, true, 2, 3))
	})
	wantOutput(t, p, "1;2;3;")
	wait()
}

// If too many events wait for a missing one, it is read at once.
// Scenario F49.
func TestMissingEventIsReadAtOnceWhenBufferIsFull(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	r := p.Output()
	var later []string
	for seq := 2; seq <= 300; seq++ {
		later = append(later, fmt.Sprintf("o%d", seq))
	}
	var want strings.Builder
	for seq := 1; seq <= 300; seq++ {
		fmt.Fprintf(&want, "%d;", seq)
	}
	wait := scripted.Play(t, func() {
		first.Say(scripted.Events("P", strings.Join(later, " "))...)
		m := first.Expect("process/read")
		seqs := []int{}
		for seq := 1; seq <= 300; seq++ {
			seqs = append(seqs, seq)
		}
		first.Say(m.Answer(scripted.ReadAnswer(301, false, false, seqs...)))
		// If the client has not processed the answer yet, it has no room for these and asks again.
		first.Say(scripted.Events("P", "x301 c302")...)
		if m, ok := first.MayHear(); ok {
			first.Say(m.Answer(scripted.ReadAnswer(303, true, true)))
		}
	})
	wantRead(t, r, want.String())
	first.Cut()
	wait()
}

// Output that the server does not have any more is a gap; later output is delivered.
// Scenario F19.
func TestEvictedOutputIsGap(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	sub := p.Subscribe()
	wait := scripted.Play(t, func() {
		first.Say(scripted.Events("P", "o1")...)
		first.Cut()
		again := s.Accept()
		again.Welcome("S")
		again.Serve("process/read", scripted.ReadAnswer(8, false, false, 6, 7))
		again.Say(scripted.Events("P", "x8 c9")...)
	})
	var got []string
	for {
		e, err := sub.Next(tethertest.Within(t))
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d:%d-%d", e.Kind, e.First, e.Seq))
	}
	if want := "1:0-1 4:2-5 1:0-6 1:0-7 2:0-8 3:0-9"; strings.Join(got, " ") != want {
		t.Errorf("events %q, want %q", got, want)
	}
	wait()
	r := p.Output()
	b, err := io.ReadAll(r)
	if string(b) != "1;" || !errors.Is(err, client.ErrGap) {
		t.Errorf("a reader got %q, %v", b, err)
	}
}

// Scenarios F53 and F54.
func TestContradictoryReadAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, want string }{
		"F53": {scripted.ReadAnswer(4, true, true, 1, 2, 3), "failed to recover process P: protocol error of the server: process close sequence 3 conflicts with recovered output"},
		"F54": {strings.Replace(scripted.ReadAnswer(4, true, true, 1), `"exitCode":0`, `"exitCode":null`, 1), "recovering exited process did not include its exit code"},
	} {
		t.Run(scenario.Name(name), func(t *testing.T) {
			s := scripted.NewServer(t)
			_, p, first := started(t, s, client.Options{})
			first.Cut()
			wait := scripted.Play(t, func() {
				again := s.Accept()
				again.Welcome("S")
				again.Serve("process/read", c.answer)
				again.Serve("process/terminate", `{"running":true}`)
			})
			wantFailed(t, p, c.want)
			wait()
		})
	}
}

// If an exit does not say whether the sandbox denied something, the client asks.
// Scenario F55.
func TestExitWithoutVerdict(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() {
		first.Say(`{"method":"process/exited","params":{"processId":"P","seq":1,"exitCode":1}}`)
		first.Say(scripted.Events("P", "c2")...)
		first.Serve("process/read", strings.Replace(scripted.ReadAnswer(3, true, true), `"sandboxDenied":false`, `"sandboxDenied":true`, 1))
	})
	if exit, err := p.Wait(tethertest.Within(t)); err != nil || !exit.SandboxDenied {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
	wait()
}

// What a command has used, and what a kill has left, comes with its events, or with a read after a lost connection.
func TestUsageAndSurvivors(t *testing.T) {
	t.Parallel()
	const (
		usage     = `"tetherUsage":{"wallUs":1500,"blockedUs":7,"userUs":3,"systemUs":4,"cpuOf":"tree","memoryKill":{"processes":1,"limit":"command","bytes":1048576},"later":[]}`
		survivors = `"tetherSurvivors":[{"pid":9,"state":"D","command":"dd","reason":"it waits"}]`
	)
	check := func(t *testing.T, p *client.Process) {
		t.Helper()
		exit, err := p.Wait(tethertest.Within(t))
		if err != nil || exit.Usage == nil || exit.Usage.WallUs != 1500 || exit.Usage.CPU() != 7*time.Microsecond || exit.Usage.MemoryPeakBytes != nil ||
			exit.Usage.MemoryKill.Text() != "memory limit of 1 MiB" {
			t.Errorf("Wait: %+v, %v", exit, err)
		}
		if left := p.Survivors(); len(left) != 1 || left[0].Text() != "process 9 (dd): it waits" {
			t.Errorf("survivors: %+v", left)
		}
	}
	t.Run("events", func(t *testing.T) {
		t.Parallel()
		s := scripted.NewServer(t)
		_, p, first := started(t, s, client.Options{})
		first.Say(`{"method":"process/exited","params":{"processId":"P","seq":1,"exitCode":1,"sandboxDenied":false,` + usage + `}}`)
		first.Say(`{"method":"process/closed","params":{"processId":"P","seq":2,` + survivors + `}}`)
		check(t, p)
	})
	t.Run("read after a lost connection", func(t *testing.T) {
		t.Parallel()
		s := scripted.NewServer(t)
		_, p, first := started(t, s, client.Options{})
		wait := scripted.Play(t, func() {
			first.Cut()
			again := s.Accept()
			again.Welcome("S")
			again.Serve("process/read", strings.Replace(scripted.ReadAnswer(3, true, true), `"sandboxDenied":false`, `"sandboxDenied":false,`+usage+`,`+survivors, 1))
		})
		check(t, p)
		wait()
	})
}

// The answer to a start is lost, and the server does not have retryStart.
func TestAmbiguousStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(again *scripted.Peer){
		"F34 it runs": func(again *scripted.Peer) {
			again.Serve("process/read", scripted.ReadAnswer(2, false, false, 1))
		},
		"F35 it never arrived": func(again *scripted.Peer) {
			again.Say(again.Expect("process/read").Refuse(-32600, "unknown process id P"))
			again.Begin()
			again.Say(scripted.Events("P", "o1")...)
		},
		"start arrives late": func(again *scripted.Peer) {
			again.Say(again.Expect("process/read").Refuse(-32600, "unknown process id P"))
			again.Say(again.Expect("process/start").Refuse(-32600, "process P already exists"))
			again.Serve("process/read", scripted.ReadAnswer(2, false, false, 1))
		},
		"process is starting": func(again *scripted.Peer) {
			for range 3 {
				again.Say(again.Expect("process/read").Refuse(-32600, "process id P is starting"))
			}
			again.Serve("process/read", scripted.ReadAnswer(2, false, false, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.NewServer(t)
			wait := scripted.Play(t, func() {
				first := s.Accept()
				first.Welcome("S")
				first.Expect("process/start")
				first.Cut()
				again := s.Accept()
				again.Welcome("S")
				c(again)
				again.Say(scripted.Events("P", "x2 c3")...)
			})
			cl := dial(t, s.URL(), client.Options{})
			p := start(t, cl, client.Command{Argv: []string{"x"}, ID: "P"})
			wantOutput(t, p, "1;")
			wait()
		})
	}
}

// Scenario F37.
func TestCancelledStartIsTerminated(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	var first *scripted.Peer
	var begun scripted.Message
	wait := scripted.Play(t, func() {
		first = s.Accept()
		first.Welcome("S")
		begun = first.Expect("process/start")
	})
	c := dial(t, s.URL(), client.Options{})
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	go func() { wait(); cancel() }()
	if _, err := c.Start(ctx, client.Command{Argv: []string{"x"}, ID: "P"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	wait = scripted.Play(t, func() {
		first.Say(begun.Answer(`{"processId":"P","sandboxType":"none"}`))
		first.Serve("process/terminate", `{"running":true}`)
	})
	wait()
}

// F38: an interrupt in flight is not repeated on a server that cannot tell. F39:
// terminate is. F40: so is a long poll.
func TestCallsInFlight(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	next := func(catchUp bool) *scripted.Peer {
		again := s.Accept()
		again.Welcome("S")
		if catchUp {
			again.Serve("process/read", scripted.ReadAnswer(1, false, false))
		}
		return again
	}
	var second, third *scripted.Peer
	wait := scripted.Play(t, func() {
		first.Expect("process/signal")
		first.Cut()
		second = next(true)
	})
	if err := p.Interrupt(tethertest.Within(t)); !errors.Is(err, client.ErrAmbiguous) {
		t.Errorf("F38: %v", err)
	}
	wait()
	wait = scripted.Play(t, func() {
		second.Expect("process/terminate")
		second.Cut()
		third = next(true)
		third.Serve("process/terminate", `{"running":true}`)
	})
	if running, err := p.Terminate(tethertest.Within(t)); !running || err != nil {
		t.Errorf("F39: %t, %v", running, err)
	}
	wait()
	wait = scripted.Play(t, func() {
		third.Expect("process/read")
		third.Cut()
		again := next(true)
		again.Serve("process/read", scripted.ReadAnswer(2, false, false, 1))
	})
	r, err := p.Read(tethertest.Within(t), client.ReadOptions{Wait: longWait})
	if err != nil || r.NextSeq != 2 {
		t.Errorf("F40: %+v, %v", r, err)
	}
	wait()
}

// A write whose answer was lost is sent again even if the command has ended meanwhile: the write
// may have ended it.
func TestLastWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status string
		want   error
	}{{"accepted", nil}, {"stdinClosed", client.ErrStdinClosed}, {"unknownProcess", client.ErrUnknownProcess}} {
		t.Run(c.status, func(t *testing.T) {
			s := scripted.NewServer(t)
			_, p, first := started(t, s, client.Options{})
			wait := scripted.Play(t, func() {
				asked := first.Expect("process/write")
				first.Say(scripted.Events("P", "x1 c2")...)
				<-p.Done()
				first.Cut()
				again := s.Accept()
				again.Welcome("S")
				repeated := again.Expect("process/write")
				if string(repeated.Params) != string(asked.Params) {
					panic(fmt.Sprintf("repeated %s as %s", asked.Params, repeated.Params))
				}
				again.Say(repeated.Answer(fmt.Sprintf(`{"status":%q}`, c.status)))
			})
			if err := p.Write(tethertest.Within(t), []byte("exit\n")); !errors.Is(err, c.want) {
				t.Errorf("the write ended with %v, want %v", err, c.want)
			}
			wait()
		})
	}
}

// If the session is lost, a write without an answer fails.
func TestLastWriteOfSession(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() {
		first.Expect("process/write")
		first.Say(scripted.Events("P", "x1 c2")...)
		<-p.Done()
		first.Cut()
		s.Accept().Serve("initialize", `{"sessionId":"OTHER"}`)
	})
	if err := p.Write(tethertest.Within(t), []byte("exit\n")); !errors.Is(err, client.ErrSessionLost) {
		t.Errorf("the write ended with %v", err)
	}
	wait()
}

// F41: too many calls are refused here. F42: one more terminate is possible, and the
// next one gives the connection up. F43: when the session is lost, all get to know.
func TestLimitOfConcurrentCalls(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	const most = 1024
	var calls sync.WaitGroup
	results := make(chan error, most)
	wait := scripted.Play(t, func() {
		for range most {
			first.Expect("process/read")
		}
	})
	ctx := tethertest.Within(t)
	for range most {
		calls.Go(func() {
			_, err := p.Read(ctx, client.ReadOptions{Wait: longWait})
			results <- err
		})
	}
	wait()
	if _, err := p.Read(ctx, client.ReadOptions{Wait: longWait}); !errors.Is(err, client.ErrTooManyCalls) {
		t.Errorf("F41: call 1025: %v", err)
	}
	calls.Go(func() { p.Terminate(ctx) })
	wait = scripted.Play(t, func() { first.Expect("process/terminate") })
	wait()
	calls.Go(func() { p.Terminate(ctx) })
	wait = scripted.Play(t, func() {
		again := s.Accept() // F42
		again.Say(again.Expect("initialize").Refuse(-32600, "unknown session id S"))
	})
	wait()
	calls.Wait()
	var text string
	for range most {
		err := <-results
		if !errors.Is(err, client.ErrSessionLost) || text != "" && err.Error() != text {
			t.Fatalf("F43: %v, before %q", err, text)
		}
		text = err.Error()
	}
}
