package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

func newLazy(t *testing.T, url string, o client.Options) *client.Lazy {
	l := client.NewLazy(url, o)
	t.Cleanup(func() { l.Close() })
	return l
}

func get(t *testing.T, l *client.Lazy) *client.Client {
	t.Helper()
	c, err := l.Get(tethertest.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantStatus(t *testing.T, l *client.Lazy, want client.Readiness, text string) {
	t.Helper()
	got, err := l.Status()
	if got != want || (text == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("status is %v (%v), want %v (%s)", got, err, want, text)
	}
}

// F67: ten callers share one connection.
func TestLazyIsShared(t *testing.T) {
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	l := newLazy(t, cable.URL(), client.Options{})
	wantStatus(t, l, client.Pending, "")
	if _, err := l.Now(); !errors.Is(err, client.ErrNotReady) {
		t.Errorf("Now: %v", err)
	}
	if cable.Links() != 0 {
		t.Error("the Lazy has connected before its first use")
	}
	var callers sync.WaitGroup
	clients := make([]*client.Client, 10)
	for i := range clients {
		callers.Go(func() { clients[i], _ = l.Get(tethertest.Within(t)) })
	}
	callers.Wait()
	for _, c := range clients {
		if c == nil || c != clients[0] {
			t.Error("not the same client")
		}
	}
	if cable.Links() != 1 {
		t.Errorf("%d connections", cable.Links())
	}
	wantStatus(t, l, client.Ready, "")
	if c, err := l.Now(); c != clients[0] || err != nil {
		t.Errorf("Now: %v", err)
	}
	cable.Cut()
	tethertest.Eventually(t, func() error {
		if _, err := l.Now(); !errors.Is(err, client.ErrNotConnected) {
			return errors.New("still connected")
		}
		return nil
	})
	wantStatus(t, l, client.Pending, "")
	if get(t, l) != clients[0] {
		t.Error("Get made another client while the first one was recovering")
	}
}

// F66, F68: a failed attempt is not the last one.
func TestLazyTriesAgain(t *testing.T) {
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	cable.Cut()
	l := newLazy(t, cable.URL(), client.Options{})
	if _, err := l.Get(tethertest.Within(t)); err == nil || !strings.Contains(err.Error(), "cannot connect to "+cable.URL()+": ") {
		t.Fatalf("Get: %v", err)
	}
	wantStatus(t, l, client.Disconnected, "cannot connect to ")
	cable.Mend()
	get(t, l)
	wantStatus(t, l, client.Ready, "")
}

// F05: a lost session is replaced by a new one.
func TestLazyReplacesALostSession(t *testing.T) {
	t.Parallel()
	first, second := tethertest.StartServer(t, server.Config{}), tethertest.StartServer(t, server.Config{})
	line := tethertest.LayCable(t, first.URL)
	l := newLazy(t, line.URL(), client.Options{})
	c := get(t, l)
	if err := line.Aim(second.URL); err != nil {
		t.Fatal(err)
	}
	line.Cut()
	line.Mend()
	if err := c.Ping(tethertest.Within(t)); !errors.Is(err, client.ErrSessionLost) {
		t.Fatalf("Ping: %v", err)
	}
	wantStatus(t, l, client.Disconnected, "does not know the session any more")
	next := get(t, l)
	if next == c || next.SessionID() == c.SessionID() || next.Ping(tethertest.Within(t)) != nil {
		t.Error("no new session")
	}
}

// A Lazy releases each client whose session is lost before it dials the next one. Close releases
// the last one.
func TestLazyFuncReleasesItsClients(t *testing.T) {
	t.Parallel()
	servers := []string{tethertest.StartServer(t, server.Config{}).URL, tethertest.StartServer(t, server.Config{}).URL}
	line := tethertest.LayCable(t, servers[0])
	var steps []string
	l := client.NewLazyFunc(func(ctx context.Context) (*client.Client, error) {
		steps = append(steps, "dial")
		return client.Dial(ctx, line.URL(), client.Options{})
	}, func(c *client.Client) error {
		steps = append(steps, "release")
		return c.Close()
	})
	c := get(t, l)
	if err := line.Aim(servers[1]); err != nil {
		t.Fatal(err)
	}
	line.Cut()
	line.Mend()
	if err := c.Ping(tethertest.Within(t)); !errors.Is(err, client.ErrSessionLost) {
		t.Fatalf("Ping: %v", err)
	}
	get(t, l)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(steps, " "); got != "dial release dial release" {
		t.Errorf("steps: %s", got)
	}
}

// F29: a transport command is started again.
func TestLazyCommand(t *testing.T) {
	t.Parallel()
	l := client.NewLazyCommand(client.TransportCommand{Argv: []string{"/nonexistent/command"}}, client.Options{})
	defer l.Close()
	for range 2 {
		if _, err := l.Get(tethertest.Within(t)); err == nil || err.Error() != "cannot connect to `/nonexistent/command`: `/nonexistent/command` cannot be started: no such file or directory" {
			t.Errorf("Get: %v", err)
		}
	}
}

func TestLazyClose(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	l := client.NewLazy(s.URL(), client.Options{})
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	waiting := make(chan error, 2)
	go func() { waiting <- second(l.Get(ctx)) }()
	s.Accept() // the server does not answer
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
	go func() { waiting <- second(l.Get(tethertest.Within(t))) }()
	l.Close()
	if err := <-waiting; err == nil {
		t.Error("Get succeeded")
	}
	if _, err := l.Get(tethertest.Within(t)); !errors.Is(err, client.ErrClosed) {
		t.Errorf("Get of a closed Lazy: %v", err)
	}
	wantStatus(t, l, client.Disconnected, "closed")
}
