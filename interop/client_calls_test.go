//go:build interop

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	clientweb "github.com/tetherexec/tether/client/web"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest/scenario"
)

// A write arrives once, if its answer is lost (F31) or the write itself (F32). A write during an outage waits (F33).
func TestClientWriteArrivesOnce(t *testing.T) {
	t.Parallel()
	for id, fault := range map[string]func(*cable.Cable){
		"F31": func(c *cable.Cable) { c.On(cable.FromServer, cable.Answer("process/write"), cable.SeverBefore) },
		"F32": func(c *cable.Cable) { c.On(cable.FromClient, cable.Method("process/write"), cable.SeverBefore) },
		"F33": func(c *cable.Cable) { c.Cut(); time.AfterFunc(300*time.Millisecond, c.Mend) },
	} {
		t.Run(scenario.Name(id), func(t *testing.T) {
			t.Parallel()
			withRig(t, client.Options{}, func(r rig) {
				p := r.start("read line; echo got $line; read -t 1 line && echo twice; exit 4", func(cmd *client.Command) {
					cmd.Argv[0], cmd.Stdin = "/bin/bash", true
				})
				fault(r.cable)
				if err := p.Write(r.within(), []byte("hello\n")); err != nil {
					r.Fatal(err)
				}
				r.wants(p, "got hello\n", 4)
				r.connections(2)
			})
		})
	}
}

// A command runs once, if the answer to its start is lost (F34) or the start itself (F35). A start during an outage waits (F36).
func TestClientStartRunsOnce(t *testing.T) {
	t.Parallel()
	for id, fault := range map[string]func(*cable.Cable){
		"F34": func(c *cable.Cable) { c.On(cable.FromServer, cable.Answer("process/start"), cable.SeverBefore) },
		"F35": func(c *cable.Cable) { c.On(cable.FromClient, cable.Method("process/start"), cable.SeverBefore) },
		"F36": func(c *cable.Cable) { c.Cut(); time.AfterFunc(300*time.Millisecond, c.Mend) },
	} {
		t.Run(scenario.Name(id), func(t *testing.T) {
			t.Parallel()
			withRig(t, client.Options{}, func(r rig) {
				fault(r.cable)
				file := filepath.Join(r.TempDir(), "runs")
				r.wants(r.start(fmt.Sprintf("echo run >> %s; cat %s; exit 2", file, file)), "run\n", 2)
				r.connections(2)
			})
		})
	}
}

// If the caller cancels a start that later succeeds, the client terminates the process (F37).
func TestClientUndoesCancelledStart(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		held := r.cable.On(cable.FromServer, cable.Answer("process/start"), cable.Hold)
		ended := r.cable.On(cable.FromServer, cable.Method("process/exited"))
		ctx, cancel := context.WithCancel(r.within())
		go func() { r.await(held); cancel() }()
		_, err := r.Client.Start(ctx, client.Command{Argv: []string{"sleep", "60"}, Dir: suite.work})
		if !errors.Is(err, context.Canceled) {
			r.Errorf("%v", err)
		}
		if err := held.Release(); err != nil {
			r.Fatal(err)
		}
		r.await(ended)
	})
}

// If the answer to an interrupt is lost, tether recognises the repeated interrupt by its number and delivers it once. With the
// reference the outcome is unknown (F38).
func TestClientInterruptWithLostAnswer(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p := r.start("n=0; trap 'n=$((n+1)); echo int $n' INT; echo ready; while [ $n = 0 ]; do sleep 0.1; done; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; exit $n")
		r.awaitOutput(p, "ready\n")
		r.cable.On(cable.FromServer, cable.Answer("process/signal"), cable.SeverBefore)
		err := p.Interrupt(r.within())
		if r.who == ref && !errors.Is(err, client.ErrAmbiguous) || r.who == tether && err != nil {
			r.Errorf("%v", err)
		}
		if exit, err := p.Wait(r.within()); err != nil || exit.Code != 1 {
			r.Errorf("%d interrupts, %v", exit.Code, err)
		}
	})
}

// Terminate (F39) and a long poll (F40) are sent again after a cut.
func TestClientRepeatsTerminateAndLongPoll(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p := r.start("echo one; sleep 60")
		r.awaitOutput(p, "one\n")
		poll := r.cable.On(cable.FromClient, cable.Method("process/read"), cable.SeverAfter)
		done := make(chan error, 1)
		go func() {
			answer, err := p.Read(r.within(), client.ReadOptions{AfterSeq: 1, Wait: 2 * time.Second})
			if err == nil && answer.NextSeq < 2 {
				err = fmt.Errorf("next %d", answer.NextSeq)
			}
			done <- err
		}()
		r.await(poll)
		if err := <-done; err != nil {
			r.Errorf("F40: %v", err)
		}
		r.cable.On(cable.FromClient, cable.Method("process/terminate"), cable.SeverBefore)
		if running, err := p.Terminate(r.within()); err != nil || !running {
			r.Errorf("F39: %t, %v", running, err)
		}
		if _, err := p.Wait(r.within()); err != nil {
			r.Errorf("F39: %v", err)
		}
	})
}

// The client delivers output in order although notifications are late, doubled or lost. Scenarios F45, F46, F47 and F48.
func TestClientOrdersNotifications(t *testing.T) {
	t.Parallel()
	output := cable.Method("process/output")
	for id, fault := range map[string]func(c *cable.Cable){
		"F45": func(c *cable.Cable) { c.On(cable.FromServer, output, cable.Duplicate, cable.Behind(2)) },
		"F46": func(c *cable.Cable) { c.On(cable.FromServer, output.Nth(3), cable.HoldFor(300*time.Millisecond)) },
		"F47": func(c *cable.Cable) { c.On(cable.FromServer, output.Nth(2), cable.Drop) },
		"F48": func(c *cable.Cable) {
			c.On(cable.FromServer, output.Nth(2), cable.Drop)
			c.On(cable.FromServer, output.Nth(3), cable.SeverAfter)
		},
	} {
		t.Run(scenario.Name(id), func(t *testing.T) {
			t.Parallel()
			withRig(t, client.Options{}, func(r rig) {
				fault(r.cable)
				r.wants(r.start("for i in 1 2 3; do echo $i; sleep 0.1; done"), "1\n2\n3\n", 0)
			})
		})
	}
}

// A subscription that reads late gets everything and delays no other reader (F51). A subscription after the end gets the output
// that is still there (F52).
func TestClientServesLateSubscriptions(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p := r.start("i=0; while [ $i -lt 600 ]; do echo line $i; i=$((i+1)); done")
		slow, quick := p.Subscribe(), p.Subscribe()
		read := func(s *client.Subscription) (lines int) {
			for {
				e, err := s.Next(r.within())
				if err != nil {
					if err != io.EOF {
						r.Error(err)
					}
					return lines
				}
				if e.Kind == client.Gap {
					r.Error("a gap")
				}
				lines += strings.Count(string(e.Data), "\n")
			}
		}
		for name, s := range map[string]*client.Subscription{"quick": quick, "F51": slow, "F52": p.Subscribe()} {
			if n := read(s); n != 600 {
				r.Errorf("%s: %d lines", name, n)
			}
		}
	})
}

// A request in flight at the cut is not repeated (F44). A body fails at once with the reason (F56). Late deltas are ignored (F61).
func TestClientHTTP(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	more := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		asked[q.URL.Path]++
		mu.Unlock()
		if !strings.HasSuffix(q.URL.Path, "/stream") {
			fmt.Fprint(w, "whole")
			return
		}
		for range 3 {
			fmt.Fprint(w, "part;")
			w.(http.Flusher).Flush()
			select {
			case <-more:
			case <-q.Context().Done():
				return
			}
		}
	}))
	defer site.Close()
	withRig(t, client.Options{}, func(r rig) {
		h := &http.Client{Transport: clientweb.Of(r.Client)}
		get := func(path string) (string, error) {
			response, err := h.Get(site.URL + "/" + string(r.who) + path)
			if err != nil {
				return "", err
			}
			defer response.Body.Close()
			b, err := io.ReadAll(response.Body)
			return string(b), err
		}
		if body, err := get("/plain"); body != "whole" || err != nil {
			r.Errorf("%q, %v", body, err)
		}
		r.cable.On(cable.FromServer, cable.Answer("http/request"), cable.SeverBefore)
		if _, err := get("/lost"); !errors.Is(err, client.ErrAmbiguous) || !strings.Contains(err.Error(), "the connection was lost") {
			r.Errorf("F44: %v", err)
		}
		mu.Lock()
		if n := asked["/"+string(r.who)+"/lost"]; n != 1 {
			r.Errorf("F44: asked %d times", n)
		}
		mu.Unlock()
		r.cable.On(cable.FromServer, cable.Method("http/request/bodyDelta"), cable.SeverAfter)
		body, err := get("/stream")
		if body != "part;" || err == nil || !strings.Contains(err.Error(), "the connection was lost") {
			r.Errorf("F56: %q, %v", body, err)
		}
		if body, err := get("/again"); body != "whole" || err != nil {
			r.Errorf("F61: %q, %v", body, err)
		}
	})
	close(more)
}

// If a server on pipes is killed, the session is lost and the next use starts the server again (F29). Closing the client ends its
// server (F30).
func TestClientTransportCommand(t *testing.T) {
	t.Parallel()
	program(t, tether)
	for _, who := range products {
		t.Run(string(who), func(t *testing.T) {
			r := rig{TB: t, who: who}
			cmd := command(t, who, "--listen", "stdio")
			lazy := client.NewLazyCommand(client.TransportCommand{Argv: cmd.Args, Dir: cmd.Dir, Env: cmd.Env}, client.Options{})
			t.Cleanup(func() { lazy.Close() })
			use := func() (*client.Client, string) {
				c, err := lazy.Get(r.within())
				if err != nil {
					t.Fatal(err)
				}
				r.Client = c
				p := r.start("echo $PPID")
				pid, err := io.ReadAll(p.Output())
				if err != nil {
					t.Fatal(err)
				}
				return c, strings.TrimSpace(string(pid))
			}
			c, pid := use()
			p := r.start("sleep 60")
			if err := exec.Command("kill", "-KILL", pid).Run(); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Wait(r.within()); !errors.Is(err, client.ErrSessionLost) {
				t.Errorf("F29: %v", err)
			}
			next, nextPID := use()
			if next == c || nextPID == pid {
				t.Errorf("F29: the client is %p, was %p; server %s, was %s", next, c, nextPID, pid)
			}
			lazy.Close()
			var n int
			fmt.Sscan(nextPID, &n)
			if err := syscall.Kill(n, 0); err == nil {
				t.Errorf("F30: the server %d still runs", n)
			}
		})
	}
}

// A lazy client fails while the server is down (F66), shares one attempt among its callers (F67), tries again after a failure
// (F68), and reports a missing server program (F69).
func TestClientLazyConnect(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		own := layCable(r, sharedServer(r, r.who).url) // a cable of its own: the rig's client reconnects too, and may need several attempts
		own.Cut()
		lazy := client.NewLazy(own.URL(), client.Options{})
		r.Cleanup(func() { lazy.Close() })
		if _, err := lazy.Get(r.within()); err == nil {
			r.Error("F66: connected without a server")
		}
		own.Mend()
		links := own.Links()
		var callers sync.WaitGroup
		got := make(chan *client.Client, 10)
		for range 10 {
			callers.Go(func() {
				c, err := lazy.Get(r.within())
				if err != nil {
					r.Errorf("F68: %v", err)
				}
				got <- c
			})
		}
		callers.Wait()
		first := <-got
		for range 9 {
			if c := <-got; c != first {
				r.Error("F67: two clients")
			}
		}
		if n := own.Links() - links; n != 1 {
			r.Errorf("F67: %d connections", n)
		}
		missing := client.NewLazyCommand(client.TransportCommand{Argv: []string{"/nonexistent/server"}}, client.Options{})
		defer missing.Close()
		if _, err := missing.Get(r.within()); err == nil || !strings.Contains(err.Error(), " cannot be started: ") {
			r.Errorf("F69: %v", err)
		}
	})
}

// A reader that pauses while 48 MB are printed gets them all: tether's server keeps them
// for it, and with the reference, which keeps 1 MiB, the client does.
func TestClientPausedReader(t *testing.T) {
	withRig(t, client.Options{}, func(r rig) {
		const size = 48_000_000
		p := r.start(fmt.Sprintf("head -c %d /dev/zero; exit 4", size))
		out := p.Output()
		if _, err := p.Result(r.within()); err != nil { // the reader begins when the command has ended
			r.Fatal(err)
		}
		n, err := io.Copy(io.Discard, out)
		if n != size || err != nil {
			r.Errorf("read %d bytes of %d, %v", n, size, err)
		}
		if exit, err := p.Wait(r.within()); err != nil || exit.Code != 4 {
			r.Errorf("exit %+v, %v", exit, err)
		}
	})
}

// Input keeps its order with servers that execute requests at the same time.
func TestClientInputOrder(t *testing.T) {
	for _, who := range products {
		t.Run(string(who), func(t *testing.T) {
			program(t, who)
			r := rig{TB: t, who: who, cable: layCable(t, sharedServer(t, who, "--concurrent-requests", "4").url)}
			r.Client = r.dial(client.Options{})
			const lines = 20_000
			p := r.start(fmt.Sprintf("head -n %d", lines), func(cmd *client.Command) { cmd.Stdin = true })
			in := p.Stdin()
			for i := range lines {
				if _, err := fmt.Fprintln(in, i); err != nil {
					r.Fatal(err)
				}
			}
			text, err := io.ReadAll(p.Output())
			if err != nil {
				r.Fatal(err)
			}
			got := strings.Fields(string(text))
			for i := range lines {
				if i >= len(got) || got[i] != fmt.Sprint(i) {
					r.Fatalf("line %d of %d is wrong", i, len(got))
				}
			}
		})
	}
}
