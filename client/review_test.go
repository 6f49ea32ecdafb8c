package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// acksHello is the first answer of a server that wants acknowledgements.
const acksHello = `{"sessionId":"S","tether":{"version":"1","publicId":"p","ttlMs":30000,"features":["ack"]}}`

// connected returns a channel that is closed with the given connection.
func connected(number int) (<-chan struct{}, func(client.Status)) {
	there := make(chan struct{})
	return there, func(s client.Status) {
		if s.State == client.Connected && s.Connection == number {
			close(there)
		}
	}
}

// A server that says twice how a process ended is not believed the second time.
func TestTwoExits(t *testing.T) {
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "o1 x2")...)
	first.Say(`{"method":"process/exited","params":{"processId":"P","seq":3,"exitCode":9,"sandboxDenied":false}}`)
	first.Say(scripted.Events("P", "c4")...)
	if exit, err := p.Wait(tethertest.Within(t)); err != nil || exit.Code != 0 {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
}

// An end without an exit is not a success.
func TestClosedWithoutExit(t *testing.T) {
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Say(scripted.Events("P", "o1 c2")...)
	if exit, err := p.Wait(tethertest.Within(t)); err == nil {
		t.Errorf("Wait: %+v", exit)
	}
}

// A process that was given up because of a hole is left alone.
func TestHoleIsGivenUpOnce(t *testing.T) {
	s := scripted.NewServer(t)
	c, p, first := started(t, s, client.Impatient(client.Options{}))
	reads := 0
	wait := scripted.Play(t, func() {
		first.Say(scripted.Events("P", "o1 o3")...)
		for asked := false; !asked; {
			switch m := first.Hear(); m.Method {
			case "process/read":
				reads++
				first.Say(m.Refuse(-32603, "broken"))
			case "process/terminate":
				first.Say(m.Answer(`{"running":true}`))
			case "process/start": // some time later
				asked = true
				first.Say(m.Answer(`{"processId":"Q","sandboxType":"none"}`))
			}
		}
	})
	wantFailed(t, p, "broken")
	select { // ten times as long as the pause between two looks at holes
	case <-time.After(time.Second):
	case <-tethertest.Within(t).Done():
	}
	start(t, c, client.Command{Argv: []string{"x"}, ID: "Q"})
	wait()
	if reads != 1 {
		t.Errorf("the server was asked %d times", reads)
	}
}

// A server that contradicts itself about a hole is not asked all the time.
func TestHoleThatStays(t *testing.T) {
	s := scripted.NewServer(t)
	c, _, first := started(t, s, client.Options{})
	reads, began := 0, time.Now()
	wait := scripted.Play(t, func() {
		first.Say(scripted.Events("P", "o1 o3")...)
		for {
			m := first.Hear()
			if m.Method != "process/read" {
				first.Say(m.Answer(`{"processId":"Q","sandboxType":"none"}`))
				return
			}
			reads++
			first.Say(m.Answer(scripted.ReadAnswer(2, false, false)))
		}
	})
	<-time.After(2500 * time.Millisecond)
	start(t, c, client.Command{Argv: []string{"x"}, ID: "Q"})
	wait()
	if took := time.Since(began); reads > 1+int(took/time.Second) {
		t.Errorf("the server was asked %d times in %v", reads, took)
	}
}

// The answer to a start comes, the connection is lost and replaced, and only then does
// the starter get to see the answer.
func TestStartAnsweredLate(t *testing.T) {
	s := scripted.NewServer(t)
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Welcome("S")
		m := first.Expect("process/start")
		// It takes long to read that.
		first.Say(m.Answer(fmt.Sprintf(`{"processId":"P","sandboxType":"%s"}`, strings.Repeat(`\n`, 2<<20))))
		first.Conn.Close()
		again := s.Accept()
		again.Welcome("S")
		again.Serve("process/read", scripted.ReadAnswer(4, true, true, 1))
	})
	c := dial(t, s.URL(), client.Options{})
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := p.Wait(ctx); err != nil {
		t.Error(err)
	}
	wait()
}

// A start that is given up before it was sent is not sent.
func TestCancelledBeforeSent(t *testing.T) {
	s := scripted.NewServer(t)
	c, p, first := started(t, s, client.Options{})
	first.Cut()
	var again *scripted.Peer
	var hello scripted.Message
	wait := scripted.Play(t, func() {
		again = s.Accept()
		hello = again.Expect("initialize")
	})
	wait()
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	cancel()
	if _, err := c.Start(ctx, client.Command{Argv: []string{"x"}, ID: "Q"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	ctx, cancel = context.WithTimeout(tethertest.Within(t), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Start(ctx, client.Command{Argv: []string{"x"}, ID: "R"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start: %v", err)
	}
	wait = scripted.Play(t, func() {
		again.Say(hello.Answer(`{"sessionId":"S"}`))
		again.Expect("initialized")
		again.Serve("process/read", scripted.ReadAnswer(1, false, false))
		again.Serve("process/terminate", `{"running":true}`)
	})
	p.Terminate(tethertest.Within(t))
	wait()
}

func TestAdoptGivesUpWithItsContext(t *testing.T) {
	s := scripted.NewServer(t)
	c, _, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() {
		first.Expect("process/read")
	})
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	go func() { wait(); cancel() }()
	done := make(chan error, 1)
	go func() {
		_, err := c.Adopt(ctx, "OTHER")
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("Adopt goes on")
	}
}

// Adopt does not go on without a session.
func TestAdoptWhenTheSessionIsLost(t *testing.T) {
	s := scripted.NewServer(t)
	c, _, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() {
		first.Expect("process/read")
		first.Cut()
		again := s.Accept()
		again.Say(again.Expect("initialize").Refuse(-32600, "unknown session id S"))
	})
	done := make(chan error, 1)
	go func() {
		_, err := c.Adopt(tethertest.Within(t), "OTHER")
		done <- err
	}()
	wait()
	select {
	case err := <-done:
		if !errors.Is(err, client.ErrSessionLost) {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Adopt goes on")
	}
}

// The end of a process that was acknowledged is not the end of its namesake.
func TestNamesake(t *testing.T) {
	s := scripted.NewServer(t)
	begun := make(chan struct{})
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Greet(acksHello)
		first.Begin()
		first.Say(scripted.Events("P", "x1 c2")...)
		if m := first.Hear(); m.Method != "tether/ack" {
			panic(m.Method)
		}
		first.Begin()
		first.Say(scripted.Events("P", "o1 o2 o3")...)
		<-begun
		first.Cut()
		again := s.Accept()
		again.Greet(acksHello)
		again.Say(again.Hear().Answer(scripted.ReadAnswer(4, false, false)))
		if m := again.Hear(); m.Method != "process/terminate" {
			panic(fmt.Sprintf("%s %s", m.Method, m.Params))
		} else {
			again.Say(m.Answer(`{"running":true}`))
		}
	})
	again, onState := connected(2)
	c := dial(t, s.URL(), client.Options{OnState: onState})
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	if _, err := p.Wait(tethertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	p = start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	close(begun)
	<-again
	p.Terminate(tethertest.Within(t))
	wait()
}

// What the server cannot read is refused here, not sent again and again.
func TestTooLargeRequest(t *testing.T) {
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	ctx, cancel := context.WithTimeout(tethertest.Within(t), 20*time.Second)
	defer cancel()
	_, err := c.Start(ctx, client.Command{Argv: []string{"true"}, Env: map[string]string{"X": strings.Repeat("x", 65<<20)}})
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start: %v", err)
	}
	if n := c.Status().Connection; n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A piece of input that was refused is not made good by the next one.
func TestRefusedPiece(t *testing.T) {
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

// Input waits for a place among the calls.
func TestInputWaitsForItsTurn(t *testing.T) {
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
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
		calls.Go(func() { p.Read(ctx, client.ReadOptions{Wait: patience}) })
	}
	wait()
	written := make(chan error, 1)
	go func() { written <- p.Write(tethertest.Within(t), []byte("x")) }()
	select {
	case err := <-written:
		t.Errorf("Write: %v", err)
	case <-time.After(50 * time.Millisecond):
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
}

// A connection that is lost in the middle of an attempt is one more attempt, whatever
// was wrong with it.
func TestBadRequestIDDuringAttempt(t *testing.T) {
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Cut()
	wait := scripted.Play(t, func() {
		again := s.Accept()
		again.Welcome("S")
		again.Expect("process/read")
		again.Say(`{"id":-1,"method":"network/policyRequest","params":{}}`)
		again = s.Accept()
		again.Welcome("S")
		again.Serve("process/read", scripted.ReadAnswer(4, true, true, 1))
	})
	wantOutput(t, p, "1;")
	wait()
}

// Who uses a client while it is being closed gets an error, and Close misses nobody.
func TestUseWhileClosing(t *testing.T) {
	url := tethertest.StartServer(t, server.Config{}).URL
	for range 20 {
		c, err := client.Dial(tethertest.Within(t), url, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var processes []*client.Process
		for range 8 {
			cmd := sh("cat")
			cmd.Stdin = true
			processes = append(processes, start(t, c, cmd))
		}
		var users sync.WaitGroup
		for _, p := range processes {
			users.Go(func() { p.Write(tethertest.Within(t), []byte("x")) })
			users.Go(func() { c.Start(tethertest.Within(t), sh("true")) })
		}
		c.Close()
		users.Wait()
	}
}

// A reader that is closed returns.
func TestCloseWakesReader(t *testing.T) {
	s := scripted.NewServer(t)
	_, p, _ := started(t, s, client.Options{})
	r := p.Output()
	done := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(r)
		done <- err
	}()
	<-time.After(20 * time.Millisecond)
	r.Close()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(5 * time.Second):
		t.Error("it goes on")
		p.Subscribe()
	}
}

// The times that a server grants may be absurd.
func TestAbsurdTTL(t *testing.T) {
	s := scripted.NewServer(t)
	hello := `{"sessionId":"S","tether":{"version":"1","publicId":"p","ttlMs":18446744073709551615,"features":[]}}`
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Greet(hello)
		first.Cut()
		again := s.Accept()
		again.Greet(hello)
		again.Begin()
	})
	again, onState := connected(2)
	c := dial(t, s.URL(), client.Options{OnState: onState})
	if c.TTL() <= 0 {
		t.Fatalf("TTL %v", c.TTL())
	}
	<-again
	start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	wait()
}

// While much is on its way to a server that is slow to take it, what comes from it is
// still delivered: acknowledgements wait behind the rest, nobody waits for them.
func TestAcknowledgeWithoutWaiting(t *testing.T) {
	s := scripted.NewServer(t)
	var first *scripted.Peer
	wait := scripted.Play(t, func() {
		first = s.Accept()
		first.Greet(acksHello)
		first.Begin()
	})
	c := dial(t, s.URL(), client.Options{})
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	wait()
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	var starts sync.WaitGroup
	for range 2 {
		starts.Go(func() {
			c.Start(ctx, client.Command{Argv: []string{"x"}, Env: map[string]string{"X": strings.Repeat("x", 40<<20)}})
		})
	}
	// The first bytes of the large message have come, so both were begun, or will be.
	sub := p.Subscribe()
	one := make([]byte, 1)
	io.ReadFull(first.Conn, one)
	<-time.After(time.Second)
	const many = 1000
	for seq := 1; seq <= many; seq++ {
		first.Say(scripted.Events("P", fmt.Sprintf("o%d", seq))...)
	}
	limit, stop := context.WithTimeout(tethertest.Within(t), 5*time.Second)
	defer stop()
	for range many {
		if _, err := sub.Next(limit); err != nil {
			t.Errorf("event %d: %v", p.LastSeq()+1, err)
			break
		}
	}
	if limit.Err() != nil {
		t.Error("it took too long")
	}
	cancel()
	first.Cut()
	s.Close()
	c.Close()
	starts.Wait()
}

// What was acknowledged on a connection that was lost is said again on the next.
func TestLostAcknowledgement(t *testing.T) {
	s := scripted.NewServer(t)
	acked := make(chan uint64, 1)
	cut := make(chan struct{})
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Greet(acksHello)
		first.Begin()
		for seq := 1; seq <= 40; seq++ {
			first.Say(scripted.Events("P", fmt.Sprintf("o%d", seq))...)
		}
		<-cut
		first.Cut()
		again := s.Accept()
		again.Greet(acksHello)
		again.Say(again.Hear().Answer(scripted.ReadAnswer(41, false, false)))
		var a struct {
			Seq uint64 `json:"seq"`
		}
		m := again.Hear()
		if m.Method != "tether/ack" {
			panic(m.Method)
		}
		json.Unmarshal(m.Params, &a)
		acked <- a.Seq
	})
	c := dial(t, s.URL(), client.Options{})
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	sub := p.Subscribe()
	for range 40 {
		if _, err := sub.Next(tethertest.Within(t)); err != nil {
			t.Fatal(err)
		}
	}
	close(cut)
	select {
	case seq := <-acked:
		if seq != 40 {
			t.Errorf("acknowledged %d", seq)
		}
	case <-time.After(5 * time.Second):
		t.Error("nothing is acknowledged")
		c.Close()
		return
	}
	wait()
}

// Output that nobody wants any more is acknowledged by its size too.
func TestAcknowledgeUnwanted(t *testing.T) {
	s := scripted.NewServer(t)
	closed := make(chan struct{})
	wait := scripted.Play(t, func() {
		first := s.Accept()
		first.Greet(acksHello)
		first.Begin()
		<-closed
		large, _ := json.Marshal(make([]byte, 100<<10))
		for seq := 1; seq <= 4; seq++ {
			first.Say(fmt.Sprintf(`{"method":"process/output","params":{"processId":"P","seq":%d,"stream":"stdout","chunk":%s}}`, seq, large))
		}
		first.Conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if m, ok := first.MayHear(); !ok || m.Method != "tether/ack" {
			panic("no acknowledgement")
		}
	})
	c := dial(t, s.URL(), client.Options{})
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	p.Subscribe().Close()
	close(closed)
	wait()
}

// linesServer is a server for one process on standard input and output, as a shell
// script without a detour over other programs: those may be slow to start. more are the
// cases that a test adds.
func linesServer(more string) client.TransportCommand {
	return client.TransportCommand{Argv: []string{"/bin/sh", "-c", `
answer() { id=${line#*\"id\":}; printf '{"id":%s,"result":%s}\n' "${id%%[!0-9]*}" "$1"; }
while read -r line; do
	case $line in
	*'"initialize"'*) answer '{"sessionId":"S"}' ;;
	*'"process/start"'*) answer '{"processId":"P","sandboxType":"none"}' ;;
	` + more + `
	*'"environment/status"'*) answer '{"status":"ready"}' ;;
	esac
done`}}
}

// A question that takes long over a transport without pings is waited for, as long as
// the server gives signs of life.
func TestSlowAnswerOverLines(t *testing.T) {
	const read = `*'"process/read"'*) (sleep 5; answer '`
	slow := read + scripted.ReadAnswer(1, false, false) + `') & ;;`
	for name, try := range map[string]struct {
		more    string
		options client.Options
	}{
		"it says that it is there": {slow, client.Impatient(client.Options{})},
		"it says something else":   {`*'"environment/status"'*) ;;` + talking(slow), client.Impatient(client.Options{})},
		"it always says something": {`*'"environment/status"'*) ;;` + talking(slow), client.Options{Silence: 2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := client.DialCommand(tethertest.Within(t), linesServer(try.more), try.options)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
			if _, err := p.Read(tethertest.Within(t), client.ReadOptions{}); err != nil {
				t.Error(err)
			}
			if n := c.Status().Connection; n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// talking makes a server say something all the time from the first read on.
func talking(cases string) string {
	const note = `(while sleep 0.1; do echo '{"method":"new/thing","params":{}}'; done) & `
	return strings.Replace(cases, `*'"process/read"'*) `, `*'"process/read"'*) `+note, 1)
}
