package client_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

func TestRemote(t *testing.T) {
	t.Parallel()
	owner, other, _ := twoClients(t)
	// Not "read b": a shell that gets a signal right before it reads runs its trap after the read.
	cmd := sh(`stty -echo; trap 'echo signalled' USR1; read a; echo "got $a"; stty size; while :; do sleep 0.05; done`)
	cmd.TTY = true
	p := start(t, owner, cmd)
	r := other.Remote(owner.PublicID(), p.ID())
	o, err := r.Observe(tethertest.Within(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := r.Resize(tethertest.Within(t), 11, 22); err != nil {
		t.Error(err)
	}
	if err := r.Write(tethertest.Within(t), []byte("hello\n")); err != nil {
		t.Error(err)
	}
	awaitText(t, o, "11 22")
	if err := r.Signal(tethertest.Within(t), "usr1"); err != nil {
		t.Error(err)
	}
	awaitText(t, o, "signalled")
	if running, err := r.Terminate(tethertest.Within(t)); !running || err != nil {
		t.Errorf("Terminate: %t, %v", running, err)
	}
	if exit, err := p.Wait(tethertest.Within(t)); exit.Code == 0 || err != nil {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
}

// awaitText reads events until the output so far has a text.
func awaitText(t *testing.T, o *client.Observation, text string) {
	t.Helper()
	var seen []byte
	for !strings.Contains(string(seen), text) {
		e, err := o.Next(tethertest.Within(t))
		if err != nil {
			t.Fatalf("%v after %q", err, seen)
		}
		seen = append(seen, e.Data...)
	}
}

func TestRemoteStdin(t *testing.T) {
	t.Parallel()
	owner, other, _ := twoClients(t)
	cmd := sh("cat")
	cmd.Stdin = true
	p := start(t, owner, cmd)
	r := other.Remote(owner.PublicID(), p.ID())
	data := tethertest.PatternBytes(t, 300_000)
	reading := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(p.Output())
		reading <- b
	}()
	if err := r.Write(tethertest.Within(t), data); err != nil {
		t.Fatal(err)
	}
	if err := r.CloseStdin(tethertest.Within(t)); err != nil {
		t.Error(err)
	}
	if got := <-reading; string(got) != string(data) {
		t.Errorf("%d bytes arrived of %d", len(got), len(data))
	}
	if err := r.Write(tethertest.Within(t), []byte("x")); err == nil {
		t.Error("a write to a closed input succeeded")
	}
}

// Requests whose answers were lost are sent again, and take effect once.
func TestRemoteThroughLostAnswers(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	line := tethertest.LayCable(t, s.URL)
	owner, other := dial(t, s.URL, client.Options{}), dial(t, line.URL(), client.Options{})
	cmd := sh("exec 2>/dev/null; trap 'echo usr1; seen=1' USR1; echo ready; until [ $seen ]; do sleep 0.05; done; read x; echo got $x; read y")
	cmd.Stdin = true
	p := start(t, owner, cmd)
	r := other.Remote(owner.PublicID(), p.ID())
	sub := p.Subscribe()
	if e, err := sub.Next(tethertest.Within(t)); string(e.Data) != "ready\n" || err != nil {
		t.Fatalf("%q, %v", e.Data, err)
	}
	for _, method := range []string{"tether/process/signal", "tether/process/write"} {
		line.On(cable.FromServer, cable.Answer(method), cable.SeverBefore)
	}
	if err := r.Signal(tethertest.Within(t), "SIGUSR1"); err != nil {
		t.Error(err)
	}
	if e, err := sub.Next(tethertest.Within(t)); string(e.Data) != "usr1\n" || err != nil {
		t.Fatalf("%q, %v", e.Data, err)
	}
	if err := r.Write(tethertest.Within(t), []byte("it\n")); err != nil {
		t.Error(err)
	}
	if e, err := sub.Next(tethertest.Within(t)); string(e.Data) != "got it\n" || err != nil {
		t.Fatalf("%q, %v", e.Data, err)
	}
}

func TestEndSession(t *testing.T) {
	t.Parallel()
	owner, other, _ := twoClients(t)
	p := start(t, owner, sh("sleep 1000"))
	if err := other.EndSession(tethertest.Within(t), owner.PublicID()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(tethertest.Within(t)); !errors.Is(err, client.ErrSessionLost) {
		t.Errorf("Wait: %v", err)
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*cable.Cable){
		"tether":      func(*cable.Cable) {},
		"lost answer": func(c *cable.Cable) { c.On(cable.FromServer, cable.Answer("tether/session/end"), cable.SeverBefore) },
		"plain":       tethertest.Plain,
	} {
		t.Run(name, func(t *testing.T) {
			s := tethertest.StartServer(t, server.Config{})
			line := tethertest.LayCable(t, s.URL)
			prepare(line)
			c, other := dial(t, line.URL(), client.Options{}), dial(t, s.URL, client.Options{})
			start(t, c, sh("sleep 1000"))
			if err := c.End(tethertest.Within(t)); err != nil {
				t.Error(err)
			}
			if err := c.Ping(tethertest.Within(t)); err == nil {
				t.Error("the client is not closed")
			}
			tethertest.Eventually(t, func() error {
				list, err := other.Processes(tethertest.Within(t), "")
				if err == nil && len(list) > 0 && list[0].State == "running" {
					err = errors.New("still running")
				}
				return err
			})
		})
	}
}

func TestUnsupported(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	tethertest.Plain(line)
	c := dial(t, line.URL(), client.Options{})
	r, ctx := c.Remote("s", "p"), tethertest.Within(t)
	for what, err := range map[string]error{
		"Sessions":   second(c.Sessions(ctx)),
		"Processes":  second(c.Processes(ctx, "")),
		"Observe":    second(c.Observe(ctx, "s", "p", 0)),
		"EndSession": c.EndSession(ctx, "s"),
		"Write":      r.Write(ctx, nil),
		"Signal":     r.Signal(ctx, "INT"),
		"Resize":     r.Resize(ctx, 1, 1),
		"CloseStdin": r.CloseStdin(ctx),
		"Terminate":  second(r.Terminate(ctx)),
	} {
		if !errors.Is(err, client.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
