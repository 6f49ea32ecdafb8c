//go:build interop

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scenario"
)

// The connection faults of docs/scenarios.md, each with the reference server and with tether's. The tests check what the user of
// the client sees. It is the same with both servers, unless a test says otherwise.

// stepTime bounds one step of a scenario.
const stepTime = 60 * time.Second

// A rig is a client, a cable and a server.
type rig struct {
	testing.TB
	who   product
	cable *cable.Cable
	*client.Client
}

// withRig plays a scenario with both products.
func withRig(t *testing.T, o client.Options, f func(r rig)) {
	program(t, tether)
	for _, who := range products {
		t.Run(string(who), func(t *testing.T) {
			program(t, who)
			r := rig{TB: t, who: who, cable: layCable(t, sharedServer(t, who).url)}
			r.Client = r.dial(o)
			f(r)
		})
	}
}

func layCable(t testing.TB, target string) *cable.Cable {
	t.Helper()
	return tethertest.LayCableWith(t, cable.Config{Target: target, Notice: func(e cable.Event) {
		if *show {
			t.Log(e)
		}
	}})
}

func (r rig) dial(o client.Options) *client.Client {
	r.Helper()
	if *show {
		o.OnState = func(s client.Status) { r.Logf("%s %+v", time.Now().Format("05.000"), s) }
	}
	c, err := client.Dial(r.within(), r.cable.URL(), o)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	return c
}

func (r rig) within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), stepTime)
	r.Cleanup(cancel)
	return ctx
}

func (r rig) start(script string, change ...func(*client.Command)) *client.Process {
	r.Helper()
	cmd := client.Command{Argv: []string{"/bin/sh", "-c", script}, Dir: suite.work}
	for _, f := range change {
		f(&cmd)
	}
	p, err := r.Client.Start(r.within(), cmd)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

// startGated starts a script in which the function gate waits until open is called. So a test can set rules for later output.
func (r rig) startGated(script string) (p *client.Process, open func()) {
	r.Helper()
	file := filepath.Join(r.TempDir(), "gate")
	p = r.start(fmt.Sprintf("gate() { until [ -e %s ]; do sleep 0.02; done; }; %s", file, script))
	return p, func() {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			r.Fatal(err)
		}
	}
}

// awaitOutput waits until the output contains text.
func (r rig) awaitOutput(p *client.Process, text string) {
	r.Helper()
	got, sub := "", p.Subscribe()
	defer sub.Close()
	for !strings.Contains(got, text) {
		e, err := sub.Next(r.within())
		if err != nil {
			r.Fatalf("%q, then %v", got, err)
		}
		got += string(e.Data)
	}
}

// wants reads the whole output and the exit code.
func (r rig) wants(p *client.Process, output string, code int) {
	r.Helper()
	got, err := io.ReadAll(p.Output())
	if err != nil {
		r.Fatalf("read %q, then %v", got, err)
	}
	if string(got) != output {
		r.Errorf("output %q, want %q", got, output)
	}
	if exit, err := p.Wait(r.within()); err != nil || exit.Code != code {
		r.Errorf("exit %+v, %v; want %d", exit, err, code)
	}
}

// await waits until a rule of the cable has acted.
func (r rig) await(rule *cable.Rule) {
	r.Helper()
	if err := rule.Await(r.within(), 1); err != nil {
		r.Fatal(err)
	}
}

// connections checks how many connections the client had. The output of a process can be complete before its last connection is
// counted.
func (r rig) connections(n int) {
	r.Helper()
	tethertest.Eventually(r, func() error {
		if got := r.Client.Status().Connection; got < n {
			return fmt.Errorf("%d connections, want %d", got, n)
		}
		return nil
	})
	if got := r.Client.Status().Connection; got != n {
		r.Errorf("%d connections, want %d", got, n)
	}
}

// count prints numbers for about a second. Tests set rules that cut after the start, because the reference sometimes sends output
// before the answer to the start.
const count = "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.1; done; exit 3"

// countGated prints the rest after the gate. Several lines may arrive in one notification, so a rule can rely only on the next one.
const countGated = "for i in 1 2 3; do echo $i; sleep 0.1; done; gate; for i in 4 5 6 7 8 9 10; do echo $i; sleep 0.1; done; exit 3"

const counted = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"

// A client resumes after a cut and loses no output. Scenario F01.
func TestClientResumesAfterCut(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p, open := r.startGated(countGated)
		r.awaitOutput(p, "3\n")
		r.cable.On(cable.FromServer, cable.Method("process/output"), cable.SeverAfter)
		open()
		r.wants(p, counted, 3)
		r.connections(2)
	})
}

// A client resumes after an outage and gets the output of the outage. Scenario F02.
func TestClientResumesAfterOutage(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p, open := r.startGated(countGated)
		r.awaitOutput(p, "3\n")
		cut := r.cable.On(cable.FromServer, cable.Method("process/output"), cable.CutAfter)
		open()
		r.await(cut)
		time.AfterFunc(500*time.Millisecond, r.cable.Mend)
		r.wants(p, counted, 3)
		r.connections(2)
	})
}

// If the server stays away, the client gives up at its deadline (F03). The next use fails at once (F04), and succeeds when the
// server is back (F05).
func TestClientGivesUpAfterLongOutage(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{RecoveryTimeout: 700 * time.Millisecond}, func(r rig) {
		p := r.start("echo one; sleep 60")
		sub := p.Subscribe()
		if e, err := sub.Next(r.within()); string(e.Data) != "one\n" {
			r.Fatal(e, err)
		}
		began := time.Now()
		r.cable.Cut()
		_, err := sub.Next(r.within())
		if !errors.Is(err, client.ErrRecoveryTimeout) || !errors.Is(err, client.ErrSessionLost) ||
			!strings.Contains(err.Error(), "; the session could not be resumed: the server did not come back within 700ms; last attempt: ") {
			r.Errorf("F03: %v", err)
		}
		if took := time.Since(began); took < 700*time.Millisecond {
			r.Errorf("F03: gave up after %v", took)
		}
		if _, err := r.Client.Start(r.within(), client.Command{Argv: []string{"true"}}); err == nil || !errors.Is(err, client.ErrSessionLost) {
			r.Errorf("F03: a start afterwards: %v", err)
		}
		lazy := client.NewLazy(r.cable.URL(), client.Options{})
		r.Cleanup(func() { lazy.Close() })
		if _, err := lazy.Get(r.within()); err == nil || !strings.HasPrefix(err.Error(), "cannot connect to "+r.cable.URL()+": ") {
			r.Errorf("F04: %v", err)
		}
		r.cable.Mend()
		c, err := lazy.Get(r.within())
		if err != nil {
			r.Fatalf("F05: %v", err)
		}
		r.Client = c
		r.wants(r.start("echo two"), "two\n", 0)
	})
}

// If the server was replaced, the session is unknown there and the client fails (F06).
func TestClientFailsAfterServerRestart(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p := r.start("sleep 60")
		other := startServer(t, r.who)
		r.Cleanup(other.stop)
		if err := r.cable.Aim(other.url); err != nil {
			r.Fatal(err)
		}
		r.cable.Sever()
		_, err := p.Wait(r.within())
		if !errors.Is(err, client.ErrSessionLost) || !strings.Contains(err.Error(), "the server does not know the session any more: ") {
			r.Errorf("%v", err)
		}
	})
}

// While the server still has the old connection, which answers pings, the client asks again (F07).
func TestClientWaitsForAttachedSession(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p := r.start(count)
		refused := r.cable.On(cable.FromServer, cable.Answer("initialize").Where(func(m *cable.Message) bool {
			return m.Error != nil && m.Error.Code == -32010
		}).Nth(3))
		end := r.cable.Strand(cable.AnswersPings)
		r.await(refused)
		end()
		r.wants(p, counted, 3)
	})
}

// If the old connection is half-open, tether hands the session to the new one; the reference does not (F08).
func TestClientTakesOverHalfOpenConnection(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{RecoveryTimeout: 3 * time.Second}, func(r rig) {
		p := r.start(count)
		r.cable.Strand(cable.Silent)
		if r.who == tether {
			r.wants(p, counted, 3)
			return
		}
		if _, err := p.Wait(r.within()); !errors.Is(err, client.ErrRecoveryTimeout) {
			r.Errorf("%v", err)
		}
	})
}

// An attempt to reconnect that gets no answer, or 503, is abandoned, and the next one succeeds. Scenarios F09, F10 and F11.
func TestClientRetriesFailedAttempts(t *testing.T) {
	t.Parallel()
	for id, fault := range map[string]func(*cable.Cable) *cable.Rule{
		"F09": func(c *cable.Cable) *cable.Rule { return c.OnUpgrade(cable.Any(), cable.NoAnswer) },
		"F10": func(c *cable.Cable) *cable.Rule {
			return c.On(cable.FromServer, cable.Answer("initialize"), cable.Drop)
		},
		"F11": func(c *cable.Cable) *cable.Rule { return c.OnUpgrade(cable.Any().Times(3), cable.Status(503)) },
	} {
		t.Run(scenario.Name(id), func(t *testing.T) {
			t.Parallel()
			withRig(t, client.Options{ConnectTimeout: 2 * time.Second, InitializeTimeout: 2 * time.Second}, func(r rig) { // for the first connection too
				p := r.start(count)
				rule := fault(r.cable)
				r.cable.Sever()
				r.await(rule)
				r.wants(p, counted, 3)
				r.connections(2)
			})
		})
	}
}

// A client that is refused with 401 gives up after the second attempt (F12).
func TestClientGivesUpWhenUnauthorized(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p := r.start("sleep 60")
		refused := r.cable.OnUpgrade(cable.Any().Always(), cable.Status(401))
		r.cable.Sever()
		_, err := p.Wait(r.within())
		if refusal, ok := errors.AsType[*client.UpgradeError](err); !ok || refusal.Status != 401 || !errors.Is(err, client.ErrSessionLost) {
			r.Errorf("%v", err)
		}
		if err := refused.Await(r.within(), 2); err != nil {
			r.Errorf("the client did not try again: %v", err)
		}
		if n := refused.Count(); n != 2 {
			r.Errorf("%d attempts", n)
		}
	})
}

// Cuts before the first read of a resume is answered cost further attempts, but no output. Scenario F15.
func TestClientResumesAfterCutsInCatchUp(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p := r.start(count)
		r.cable.On(cable.FromServer, cable.Answer("process/read").Times(2), cable.SeverBefore)
		r.cable.Sever()
		r.wants(p, counted, 3)
	})
}

// A client learns of an exit during an outage. Scenario F16.
func TestClientReportsExitDuringOutage(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p, open := r.startGated("gate; echo one; sleep 0.2; echo two; exit 7")
		cut := r.cable.On(cable.FromServer, cable.Method("process/output"), cable.CutAfter)
		open()
		r.await(cut)
		time.AfterFunc(time.Second, r.cable.Mend)
		r.wants(p, "one\ntwo\n", 7)
	})
}

// If more output is printed during an outage than the reference keeps, the client reports a gap and the process goes on. tether
// keeps everything (F19).
func TestClientReadsLargeBacklogOfOutage(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		flag := filepath.Join(r.TempDir(), "flag")
		p, open := r.startGated(fmt.Sprintf("gate; echo one; sleep 0.2; head -c 3000000 /dev/zero; : > %s; sleep 1; echo end; exit 5", flag))
		cut := r.cable.On(cable.FromServer, cable.Method("process/output"), cable.CutAfter)
		open()
		r.await(cut)
		r.awaitFile(flag)
		r.cable.Mend()
		sub := p.Subscribe()
		bytes, gaps := 0, 0
		for {
			e, err := sub.Next(r.within())
			if err == io.EOF {
				break
			}
			if err != nil {
				r.Fatal(err)
			}
			bytes += len(e.Data)
			if e.Kind == client.Gap {
				gaps++
			}
		}
		const whole = 3000000 + len("one\nend\n")
		switch {
		case r.who == tether && (gaps > 0 || bytes != whole):
			r.Errorf("%d bytes of %d, %d gaps", bytes, whole, gaps)
		case r.who == ref && (gaps != 1 || bytes < 1<<19 || bytes >= whole):
			r.Errorf("%d bytes of %d, %d gaps", bytes, whole, gaps)
		}
		if exit, err := p.Wait(r.within()); err != nil || exit.Code != 5 {
			r.Errorf("exit %+v, %v", exit, err)
		}
	})
}

// A second loss during the recovery does not end the recovery. Scenario F20.
func TestClientResumesAfterLossDuringRecovery(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p := r.start(count)
		r.cable.On(cable.FromServer, cable.Answer("initialize"), cable.SeverAfter)
		r.cable.Sever()
		r.wants(p, counted, 3)
	})
}

// A client replaces a connection that is open but silent (F24).
func TestClientDetectsSilentConnection(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{Silence: time.Second}, func(r rig) {
		p := r.start(count)
		r.cable.On(cable.FromServer, cable.Method("process/output"), cable.SwallowAfter)
		r.cable.On(cable.FromClient, cable.Ping(), cable.SwallowAfter)
		if r.who == ref { // the reference resumes only after the old connection has ended
			time.AfterFunc(3*time.Second, r.cable.Sever)
		}
		r.wants(p, counted, 3)
	})
}

// A client resumes after a message that is not JSON. Scenario F25.
func TestClientResumesAfterGarbage(t *testing.T) {
	t.Parallel()
	withRig(t, client.Options{}, func(r rig) {
		p := r.start(count)
		if err := r.cable.Inject(cable.FromServer, "neither JSON nor anything"); err != nil {
			r.Fatal(err)
		}
		r.wants(p, counted, 3)
		r.connections(2)
	})
}

// awaitFile waits for a file that a process makes.
func (r rig) awaitFile(path string) {
	r.Helper()
	for ctx := r.within(); ; {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			r.Fatalf("%s does not come", path)
		}
	}
}

// If requests no longer reach the server while its output still arrives, the client replaces the connection. The request is
// answered, and no output is lost.
func TestClientOneWayLink(t *testing.T) {
	withRig(t, client.Options{FollowUp: time.Second}, func(r rig) {
		stop := filepath.Join(r.TempDir(), "stop")
		p := r.start(fmt.Sprintf("i=0; until [ -e %s ]; do i=$((i+1)); echo $i; sleep 0.02; done; exit 3", stop))
		out := p.Output()
		r.cable.On(cable.FromClient, cable.Method("fs/getMetadata"), cable.Drop, cable.SwallowAfter)
		ctx, cancel := context.WithTimeout(r.Context(), 25*time.Second) // tether ends a connection from which it hears nothing after 40 s
		defer cancel()
		if _, err := files.Of(r.Client).Stat(ctx, "/"); err != nil {
			r.Errorf("Stat: %v", err)
		}
		if n := r.Status().Connection; n < 2 {
			r.Errorf("%d connections", n)
		}
		if err := os.WriteFile(stop, nil, 0o600); err != nil {
			r.Fatal(err)
		}
		text, err := io.ReadAll(out)
		if err != nil {
			r.Error(err)
		}
		for i, line := range strings.Fields(string(text)) {
			if line != fmt.Sprint(i+1) {
				r.Fatalf("line %d is %q", i+1, line)
			}
		}
		if exit, err := p.Wait(r.within()); err != nil || exit.Code != 3 {
			r.Errorf("exit %+v, %v", exit, err)
		}
	})
}
