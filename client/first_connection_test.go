package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// A waiting is a call of Dial with Options.Wait over an injected network.
type waiting struct {
	client.Options
	states
	attempts int
	took     time.Duration
	err      error
}

// dial waits for up to half a minute. connect gets the number of the attempt.
func (w *waiting) dial(t *testing.T, ctx context.Context, connect func(ctx context.Context, attempt int) (net.Conn, error)) *client.Client {
	w.Wait, w.OnState = 30*time.Second, w.record
	w.Connect = func(ctx context.Context) (net.Conn, error) {
		w.attempts++
		return connect(ctx, w.attempts)
	}
	began := time.Now()
	c, err := client.Dial(ctx, "ws://127.0.0.1:1", w.Options)
	w.took, w.err = time.Since(began), err
	return c
}

// served returns a connection to a server that runs the function.
func served(t *testing.T, serve func(net.Conn)) net.Conn {
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	t.Cleanup(func() { ours.Close(); <-done })
	go func() {
		defer close(done)
		defer theirs.Close()
		serve(theirs)
	}()
	return ours
}

// upgraded is for servers that speak the protocol.
func upgraded(t *testing.T, serve func(*scripted.Peer)) func(net.Conn) {
	return func(conn net.Conn) {
		p, err := scripted.NewPeer(conn)
		if err != nil {
			t.Error(err)
			return
		}
		serve(p)
	}
}

// Dial waits for a server that is not there yet, and reports each failed attempt.
func TestDialWaitsForTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w waiting
		began, gone := time.Now(), false
		c := w.dial(t, t.Context(), func(_ context.Context, n int) (net.Conn, error) {
			if time.Since(began) < 20*time.Second {
				return nil, errors.New("connection refused")
			}
			if !gone { // the first server goes away at once
				gone = true
				return served(t, upgraded(t, func(p *scripted.Peer) { p.Expect("initialize") })), nil
			}
			return served(t, upgraded(t, func(p *scripted.Peer) {
				p.Welcome("S")
				p.MayHear()
			})), nil
		})
		if w.err != nil || w.took > 22*time.Second {
			t.Fatalf("Dial: %v after %v", w.err, w.took)
		}
		c.Close()
		reported, _ := w.recorded()
		if n := w.attempts - 1; n < 20 || len(reported) > n+2 || reported[0] != client.Connecting || !slices.Equal(reported[len(reported)-2:], []client.State{client.Connected, client.Failed}) {
			t.Errorf("%d attempts, reported %v", w.attempts, reported)
		}
		if s := w.all[0]; s.Attempt != 1 || !strings.Contains(s.Err.Error(), "connection refused") {
			t.Errorf("the first status is %+v", s)
		}
	})
}

// When the time is over, Dial fails with the reason of the last attempt that was not cut
// short.
func TestDialWaitIsOver(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"refused": false, "silent": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var w waiting
				w.ConnectTimeout = time.Minute
				w.dial(t, t.Context(), func(ctx context.Context, n int) (net.Conn, error) {
					if hangs && n > 2 {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return nil, fmt.Errorf("reason %d.", n)
				})
				want := fmt.Sprintf("reason %d.", w.attempts)
				if hangs {
					want = "reason 2."
				}
				if w.err == nil || !strings.Contains(w.err.Error(), want) || w.took > 30*time.Second || w.took < 29*time.Second {
					t.Errorf("Dial: %v after %v, want %q", w.err, w.took, want)
				}
				if reported, _ := w.recorded(); slices.Contains(reported, client.Failed) {
					t.Error("Failed was reported although there was no session")
				}
			})
		})
	}
}

// The first attempt has the full time of an attempt, even if Wait is shorter.
func TestDialFirstAttemptIsNotCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := client.Dial(t.Context(), "ws://127.0.0.1:1", client.Options{Wait: time.Second, Connect: func(context.Context) (net.Conn, error) {
			time.Sleep(5 * time.Second)
			return served(t, upgraded(t, func(p *scripted.Peer) {
				p.Welcome("S")
				p.MayHear()
			})), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	})
}

// After a refusal by the server, Dial does not try again.
func TestDialDoesNotWaitAfterARefusal(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(net.Conn){
		"token": func(conn net.Conn) {
			conn.Read(make([]byte, 4096))
			io.WriteString(conn, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
		},
		"initialize": upgraded(t, func(p *scripted.Peer) { p.Say(p.Expect("initialize").Refuse(-32602, "no")) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var w waiting
				w.dial(t, t.Context(), func(context.Context, int) (net.Conn, error) { return served(t, serve), nil })
				if w.err == nil || w.attempts != 1 {
					t.Errorf("Dial: %v after %d attempts", w.err, w.attempts)
				}
			})
		})
	}
	t.Run("certificate", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewUnstartedServer(nil)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		defer s.Close()
		_, err := client.Dial(tethertest.Within(t), strings.Replace(s.URL, "https", "wss", 1), client.Options{Wait: time.Hour})
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial: %v", err)
		}
	})
}

// The caller can end the wait.
func TestDialWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, enough)
		defer cancel()
		var w waiting
		w.dial(t, ctx, func(context.Context, int) (net.Conn, error) { return nil, errors.New("connection refused") })
		if !errors.Is(w.err, enough) || w.took != 10*time.Second {
			t.Errorf("Dial: %v after %v", w.err, w.took)
		}
	})
}
