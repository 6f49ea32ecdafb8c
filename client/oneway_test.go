package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// soon is the FollowUp of these tests.
const soon = 300 * time.Millisecond

// beforeTheServer is less than the 40 s after which a server ends a connection on which it
// receives nothing.
const beforeTheServer = 25 * time.Second

// If requests no longer reach the server while its output still arrives, the connection is
// replaced, the request is answered, and no output is lost.
func TestLinkDeadInOneDirection(t *testing.T) {
	t.Parallel()
	for name, concurrent := range map[string]bool{
		"followed up with a status": true,
		"followed up with a ping":   false, // as with a reference server
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
			if !concurrent {
				bad.On(cable.FromServer, cable.Answer("initialize").Always(), cable.Edit(func(m cable.Message) []byte {
					without := bytes.Replace(m.Raw, []byte(`"concurrent",`), nil, 1)
					if len(without) == len(m.Raw) {
						t.Errorf("the server does not announce the feature: %s", m.Raw)
					}
					return without
				}))
			}
			c := dial(t, bad.URL(), client.WithShortTimeouts(client.Options{FollowUp: soon}))
			stop := filepath.Join(t.TempDir(), "stop")
			p := start(t, c, sh("i=0; until [ -e "+stop+" ]; do i=$((i+1)); echo $i; sleep 0.02; done"))
			out := p.Output()
			swallowed := bad.On(cable.FromClient, cable.Method("fs/getMetadata"), cable.Drop, cable.SwallowAfter)
			ctx, cancel := context.WithTimeout(t.Context(), beforeTheServer)
			defer cancel()
			if _, err := files.Of(c).Stat(ctx, "/"); err != nil {
				t.Errorf("Stat: %v", err)
			}
			if n := swallowed.Count(); n != 1 {
				t.Errorf("%d requests were lost", n)
			}
			if n := c.Status().Connection; n < 2 {
				t.Errorf("%d connections", n)
			}
			if err := os.WriteFile(stop, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(out)
			if err != nil {
				t.Error(err)
			}
			for i, line := range strings.Fields(string(text)) {
				if line != fmt.Sprint(i+1) {
					t.Fatalf("line %d is %q", i+1, line)
				}
			}
		})
	}
}

// While the server is busy with a request, the client follows up again and again, and waits.
func TestLongRequestIsFollowedUp(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	c, p, first := started(t, s, client.Options{FollowUp: soon})
	wait := scripted.Play(t, func() {
		asked, _ := first.HearFrame()
		for asked.Method != "process/read" {
			asked, _ = first.HearFrame()
		}
		for pings := 0; pings < 5; {
			if _, ping := first.HearFrame(); ping {
				pings++
			}
		}
		first.Say(asked.Answer(scripted.ReadAnswer(1, false, false)))
	})
	if _, err := p.Read(tethertest.Within(t), client.ReadOptions{}); err != nil {
		t.Error(err)
	}
	wait()
	if n := c.Status().Connection; n != 1 {
		t.Errorf("%d connections", n)
	}
}

// The client waits for an answer behind output on a slow link, although a ping is not answered
// either until then.
func TestAnswerBehindOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted.NewPipes(t)
		c, p, first := started(t, s, client.Options{FollowUp: soon, Connect: s.Connect})
		out := p.Output()
		const many = 60
		wait := scripted.Play(t, func() {
			asked := first.Expect("process/read")
			reading := scripted.Play(t, func() { io.Copy(io.Discard, first.Conn) }) // pings are not answered
			for seq := 1; seq <= many; seq++ {                                      // 40 KiB, ten times per second
				first.Say(fmt.Sprintf(`{"method":"process/output","params":{"processId":"P","seq":%d,"stream":"stdout","chunk":%q}}`, seq, strings.Repeat("QUFB", 10<<10)))
				time.Sleep(100 * time.Millisecond) // the rate of the link
			}
			first.Say(asked.Answer(scripted.ReadAnswer(1, false, false)))
			first.Say(scripted.Events("P", fmt.Sprintf("x%d c%d", many+1, many+2))...)
			first.Cut()
			reading()
		})
		if _, err := p.Read(tethertest.Within(t), client.ReadOptions{}); err != nil {
			t.Error(err)
		}
		wait()
		if n := len(whole(t, out)); n != many*30<<10 {
			t.Errorf("%d bytes of output", n)
		}
		if n := c.Status().Connection; n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// The follow-up to a server that announces "concurrent" is a status request.
func TestLongRequestOfConcurrentServer(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	var first *scripted.Peer
	wait := scripted.Play(t, func() {
		first = s.Accept()
		first.Say(first.Expect("initialize").Answer(scripted.Hello(`"concurrent"`)))
		first.Expect("initialized")
		first.Begin()
		asked := first.Expect("process/read")
		for range 3 {
			first.Serve("environment/status", `{"status":"ready"}`)
		}
		first.Say(asked.Answer(scripted.ReadAnswer(1, false, false)))
	})
	c := dial(t, s.URL(), client.Options{FollowUp: soon})
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
	if _, err := p.Read(tethertest.Within(t), client.ReadOptions{Wait: longWait}); err != nil {
		t.Error(err)
	}
	wait()
	if n := c.Status().Connection; n != 1 {
		t.Errorf("%d connections", n)
	}
}

// If the server reports that it receives nothing, the connection is replaced, without any request.
func TestServerReceivesNothing(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	again, onState := connected(2)
	_, p, first := started(t, s, client.WithShortTimeouts(client.Options{OnState: onState}))
	stop := make(chan struct{})
	wait := scripted.Play(t, func() {
		for ended := false; !ended; {
			ended = frames.Write(first.Conn, frames.Ping([]byte("unheard-ms=60000"))) != nil
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	resumed := scripted.Play(t, func() {
		next := s.Accept()
		next.Welcome("S")
		next.Serve("process/read", scripted.ReadAnswer(4, true, true, 1))
	})
	within(t, "the connection that the server hears nothing from", again)
	close(stop)
	wait()
	resumed()
	wantOutput(t, p, "1;")
}
