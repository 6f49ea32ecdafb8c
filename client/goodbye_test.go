package client_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
	"github.com/tetherexec/tether/wire"
)

const goodbye = `{"method":"tether/goodbye","params":{}}`

// wantStopped checks that a process has failed because its server was shut down.
func wantStopped(t *testing.T, p *client.Process) {
	t.Helper()
	_, err := p.Wait(tethertest.Within(t))
	if !errors.Is(err, client.ErrServerStopped) || !errors.Is(err, client.ErrSessionLost) || err.Error() != client.ErrServerStopped.Error() {
		t.Errorf("the process failed with %v", err)
	}
}

// When a server is shut down, its clients fail at once with that reason, though they
// could try to resume their sessions for an hour.
func TestServerStops(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"tcp": "", "unix": "unix://" + filepath.Join(t.TempDir(), "s")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := tethertest.StartServerAt(t, url, server.Config{})
			var recorder states
			c := dial(t, srv.URL, client.Options{TTL: time.Hour, OnState: recorder.record})
			p := start(t, c, sh("exec sleep 60"))
			srv.Stop()
			wantStopped(t, p)
			if _, err := c.Start(tethertest.Within(t), sh("true")); !errors.Is(err, client.ErrServerStopped) {
				t.Errorf("a later start failed with %v", err)
			}
			c.Close()
			if n := len(recorder.all); n != 3 { // Connected, Recovering, Failed
				t.Errorf("the client has tried to resume its session: %d states", n)
			}
		})
	}
}

// A client fails with the right reason even if the connection breaks right after the goodbye.
func TestCutAfterTheGoodbye(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{RecoveryTimeout: time.Hour})
	first.Say(goodbye)
	first.Cut()
	wantStopped(t, p)
	if n := len(s.Peers); n > 0 {
		t.Errorf("the client has made %d more connections", n)
	}
}

// A client that is resuming its session when the server is shut down fails with that
// reason, whether the server has read its request or not.
func TestServerStopsDuringResume(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(*scripted.Peer){
		"request read": func(p *scripted.Peer) {
			m := p.Expect("initialize")
			var params wire.InitializeParams
			if err := json.Unmarshal(m.Params, &params); err != nil || params.Tether == nil || params.Tether.Goodbye == nil || !*params.Tether.Goodbye {
				t.Errorf("the client did not ask for a goodbye (%v): %s", err, m.Params)
			}
			p.Say(goodbye)
		},
		"request not read": func(p *scripted.Peer) { p.Leave(wire.ReasonStopping) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripted.NewServer(t)
			_, p, first := started(t, s, client.Options{RecoveryTimeout: time.Hour})
			first.Cut()
			wait := scripted.Play(t, func() { say(s.Accept()) })
			wantStopped(t, p)
			wait()
		})
	}
}

// A close frame of code 1001 alone, such as that of a proxy that restarts, is a lost
// connection: the session is resumed.
func TestProxyGoesAway(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	first.Leave("server is shutting down")
	wait := scripted.Play(t, func() {
		again := s.Accept()
		again.Welcome("S")
		again.Say(again.Expect("process/read").Answer(scripted.ReadAnswer(3, true, true)))
	})
	if exit, err := p.Wait(tethertest.Within(t)); err != nil {
		t.Errorf("%+v, %v", exit, err)
	}
	wait()
}

// A server that is replaced has answered all that it has carried out. So a request without an answer is repeated, also one that
// must not be carried out twice.
func TestRequestIsRepeatedWhenTheServerIsReplaced(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	c, p, first := started(t, s, client.Options{})
	wait := scripted.Play(t, func() {
		first.Expect("test/once")
		first.Replaced()
		again := s.Accept()
		again.Welcome("S")
		again.Say(again.Expect("process/read").Answer(scripted.ReadAnswer(3, true, true)))
		again.Say(again.Expect("test/once").Answer(`{}`))
	})
	if err := c.Call(tethertest.Within(t), client.AtMostOnce, "test/once", wire.Empty{}, nil); err != nil {
		t.Error(err)
	}
	if exit, err := p.Wait(tethertest.Within(t)); err != nil {
		t.Errorf("%+v, %v", exit, err)
	}
	wait()
}
