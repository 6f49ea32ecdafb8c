package client_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// The reason in the answer decides; the text decides only if there is no reason.
func TestReasonDecides(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	refusals := []struct {
		error string
		want  error
	}{
		{`{"code":-32600,"message":"any text","data":{"reason":"unknownProcess"}}`, client.ErrUnknownProcess},
		{`{"code":-32600,"message":"unknown process id P","data":{"reason":"stdinClosed"}}`, client.ErrStdinClosed},
		{`{"code":-32600,"message":"unknown process id P"}`, client.ErrUnknownProcess},
		{`{"code":-32600,"message":"unknown process id P","data":[1]}`, client.ErrUnknownProcess},
		{`{"code":-32603,"message":"File exists (os error 17)"}`, fs.ErrExist},
	}
	wait := scripted.Play(t, func() {
		p := s.Accept()
		p.Greet(scripted.Hello(`"state"`))
		for _, refusal := range refusals {
			m := p.Expect("tether/process/state")
			p.Say(fmt.Sprintf(`{"id":%d,"error":%s}`, *m.ID, refusal.error))
		}
	})
	remote := dial(t, s.URL(), client.Options{}).Remote("p", "P")
	all := []error{client.ErrUnknownProcess, client.ErrStdinClosed, fs.ErrExist}
	for _, refusal := range refusals {
		_, err := remote.State(tethertest.Within(t))
		for _, candidate := range all {
			if errors.Is(err, candidate) != (candidate == refusal.want) {
				t.Errorf("%s: errors.Is %v: %t", refusal.error, candidate, candidate != refusal.want)
			}
		}
	}
	wait()
}

// A start with the id of a process that an earlier client has left in the session is ErrProcessExists.
func TestStartOfExistingProcess(t *testing.T) {
	t.Parallel()
	srv := tethertest.StartServer(t, server.Config{})
	first := dial(t, srv.URL, client.Options{})
	start(t, first, client.Command{Argv: []string{"sleep", "1000"}, Dir: "/", ID: "P"})
	first.Close()
	second := dial(t, srv.URL, client.Options{Resume: first.SessionID()})
	ctx := tethertest.Within(t)
	if _, err := second.Start(ctx, client.Command{Argv: []string{"true"}, Dir: "/", ID: "P"}); !errors.Is(err, client.ErrProcessExists) {
		t.Errorf("Start: %v", err)
	}
	if err := files.Of(second).Mkdir(ctx, t.TempDir()); !errors.Is(err, fs.ErrExist) || errors.Is(err, client.ErrProcessExists) {
		t.Errorf("Mkdir: %v", err)
	}
	if err := second.End(ctx); err != nil {
		t.Error(err)
	}
}
