package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// acksHello is the first answer of a server that expects acknowledgements.
const acksHello = `{"sessionId":"S","tether":{"version":"1","publicId":"p","ttlMs":30000,"features":["ack"]}}`

// If a server is slow to take what the client sends, the client still delivers the server's output:
// acknowledgements wait in the send queue, and delivery does not wait for them.
func TestAcknowledgeWithoutWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted.NewPipes(t)
		var first *scripted.Peer
		wait := scripted.Play(t, func() {
			first = s.Accept()
			first.Greet(acksHello)
			first.Begin()
		})
		c := dial(t, s.URL(), client.Options{Connect: s.Connect})
		p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
		wait()
		ctx, cancel := context.WithCancel(tethertest.Within(t))
		var starts sync.WaitGroup
		for range 2 {
			starts.Go(func() {
				c.Start(ctx, client.Command{Argv: []string{"x"}, Env: map[string]string{"X": strings.Repeat("x", 40<<20)}})
			})
		}
		sub := p.Subscribe()
		synctest.Wait() // the first large message waits to be read, and the second waits behind it
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
		c.Close()
		starts.Wait()
	})
}

// Acknowledgements that were lost with a connection are sent again on the next one.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
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
	case <-time.After(longWait):
		t.Error("nothing is acknowledged")
		c.Close()
		return
	}
	wait()
}

// The client acknowledges output by its size also after the last reader has gone.
func TestAcknowledgeWithoutReader(t *testing.T) {
	t.Parallel()
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
		first.Conn.SetReadDeadline(time.Now().Add(hang.Limit))
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
