package client_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

func TestState(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows what processes do")
	}
	owner, other, _ := twoClients(t)
	cmd := sh("read x; exit 3")
	cmd.Stdin = true
	p := start(t, owner, cmd)
	r := other.Remote(owner.PublicID(), p.ID())
	for _, state := range []func() (wire.StateResult, error){
		func() (wire.StateResult, error) { return p.State(tethertest.Within(t)) },
		func() (wire.StateResult, error) { return r.State(tethertest.Within(t)) },
	} {
		tethertest.Eventually(t, func() error {
			s, err := state()
			if err == nil && (s.State != wire.StateRunning || s.StateDetail.Activity != wire.ActivityWaitingForInput || len(s.StateDetail.Evidence) == 0) {
				err = errors.New(s.StateDetail.Text)
			}
			return err
		})
	}
	if err := p.CloseStdin(tethertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(tethertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	if s, err := p.State(tethertest.Within(t)); err != nil || s.State != wire.StateClosed || *s.ExitCode != 3 || s.StateDetail.Activity != wire.ActivityEnded {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	owner, other, _ := twoClients(t)
	cmd := sh("echo one; echo TWO; echo three; echo four; echo err >&2; read x")
	cmd.Stdin = true
	p := start(t, owner, cmd)
	o, err := other.Observe(tethertest.Within(t), owner.PublicID(), p.ID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	awaitText(t, o, "err") // written last, but in the other pipe
	tethertest.Eventually(t, func() error {
		if r, err := p.Search(tethertest.Within(t), client.Search{Pattern: "^four$"}); err != nil || r.Matches != 1 {
			return errors.Join(errors.New("four is not there"), err)
		}
		return nil
	})
	full := client.Search{Pattern: "two|three", IgnoreCase: true, Stream: wire.StreamStdout, FromLine: 1, ToLine: 100, MaxMatches: 1, Before: 1, After: 1}
	for _, search := range []func(client.Search) (wire.SearchResult, error){
		func(s client.Search) (wire.SearchResult, error) { return p.Search(tethertest.Within(t), s) },
		func(s client.Search) (wire.SearchResult, error) {
			return other.Remote(owner.PublicID(), p.ID()).Search(tethertest.Within(t), s)
		},
	} {
		r, err := search(full)
		if err != nil || r.Matches != 1 || len(r.Lines) != 2 || r.Lines[0].Text != "one" || r.Lines[1].Text != "TWO" || !r.Lines[1].Match ||
			*r.Truncated != wire.TruncatedMatches || r.NextLine == nil {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := search(client.Search{}); err != nil || len(r.Lines) != 5 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := search(client.Search{Pattern: "("}); err == nil {
			t.Error("a malformed pattern was accepted")
		}
	}
	if _, err := p.Terminate(tethertest.Within(t)); err != nil {
		t.Fatal(err)
	}
}

// The client sends no such request to a server without the feature.
func TestStateAndSearchNeedTheFeature(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	tethertest.Plain(line)
	r := dial(t, line.URL(), client.Options{}).Remote("s", "p")
	if _, err := r.State(tethertest.Within(t)); !errors.Is(err, client.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := r.Search(tethertest.Within(t), client.Search{}); !errors.Is(err, client.ErrUnsupported) {
		t.Error(err)
	}
}
