package unifiedexec

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
)

// slowToEnd is an executor whose processes take a second to end.
type slowToEnd struct{ *fake }

func (s slowToEnd) Start(ctx context.Context, cmd client.Command) (Process, error) {
	p, err := s.fake.Start(ctx, cmd)
	return slowProcess{p.(*fakeProcess)}, err
}

type slowProcess struct{ *fakeProcess }

func (p slowProcess) Terminate(ctx context.Context) error {
	time.Sleep(time.Second)
	return p.fakeProcess.Terminate(ctx)
}

// When a call of Close returns, all processes have ended, also if another call has begun it.
func TestCloseTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fake{}
		m, err := New(Config{Environments: []Environment{{ID: "e", Executor: slowToEnd{e}, Cwd: "/"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.ExecCommand(t.Context(), ExecArgs{Cmd: "x", YieldTimeMs: ptr[int64](1)}); err != nil {
			t.Fatal(err)
		}
		go m.Close()
		synctest.Wait()
		m.Close()
		if e.all()[0].terminations() != 1 {
			t.Error("Close has returned, and the process still runs")
		}
	})
}

// If the context of a call ends while the session starts its second attempt, the session stays.
func TestContextEndsDuringSecondAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fake{sandboxType: "linuxSeccomp", script: func(n int, p *fakeProcess) {
			go func() {
				if n == 1 {
					time.Sleep(time.Second)
					p.exits(client.Exit{Code: 1, SandboxDenied: true})
				} else {
					p.prints("second")
					time.Sleep(time.Minute)
					p.exits(client.Exit{})
				}
				p.closes()
			}()
		}}
		m, err := New(Config{
			Environments: []Environment{{ID: "e", Executor: e, Cwd: "/", Sandbox: ReadOnly()}}, Policy: granular,
			Approver: ApproverFunc(func(context.Context, Question) (Decision, error) { return Approved, nil }),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		r, err := m.ExecCommand(t.Context(), ExecArgs{Cmd: "x", YieldTimeMs: ptr[int64](250)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond) // within earlyExitGrace of the second attempt
		defer cancel()
		if _, err := m.WriteStdin(ctx, StdinArgs{SessionID: r.SessionID}); !errors.Is(err, context.DeadlineExceeded) || len(e.all()) != 2 {
			t.Fatalf("%v, %d starts", err, len(e.all()))
		}
		r, err = m.WriteStdin(t.Context(), StdinArgs{SessionID: r.SessionID, YieldTimeMs: ptr[int64](100_000)})
		if err != nil {
			t.Fatal(err)
		}
		wantEnd(t, r, 0, "second")
	})
}

// gated is an executor whose starts wait for a gate, and ignore their context.
type gated struct {
	*fake
	entered chan struct{}
	gate    chan struct{}
}

func (g gated) Start(ctx context.Context, cmd client.Command) (Process, error) {
	g.entered <- struct{}{}
	<-g.gate
	return g.fake.Start(ctx, cmd)
}

// Close waits for a start that is under way, and ends the process.
func TestCloseDuringAStart(t *testing.T) {
	e := gated{&fake{}, make(chan struct{}), make(chan struct{})}
	r := newRigOn(t, e, nil)
	outcome := make(chan error, 1)
	go func() {
		_, err := r.ExecCommand(t.Context(), ExecArgs{Cmd: "x"})
		outcome <- err
	}()
	<-e.entered
	closed := make(chan int, 1)
	go func() {
		r.Close()
		n := 0
		for _, p := range e.all() {
			n += p.terminations()
		}
		closed <- n
	}()
	<-r.closing.Done()
	close(e.gate)
	if n := <-closed; n != 1 || len(e.all()) != 1 {
		t.Errorf("%d processes were started, and %d ended when Close returned", len(e.all()), n)
	}
	if err := <-outcome; !errors.Is(err, ErrClosed) {
		t.Errorf("the call: %v", err)
	}
}

// Close withdraws a question, and the call that waits for the answer fails, whether the
// approver returns or not. A later answer is ignored: nothing is started.
func TestCloseDuringAQuestion(t *testing.T) {
	type world struct {
		*rig
		e *fake
	}
	for name, begin := range map[string]func(w world) error{
		"before the first attempt": func(w world) error {
			_, err := w.ExecCommand(tethertest.Within(w.t), ExecArgs{Cmd: "x", SandboxPermissions: RequireEscalated})
			return err
		},
		"about a retry": func(w world) error {
			w.e.script = func(_ int, p *fakeProcess) { p.exits(client.Exit{Code: 1, SandboxDenied: true}); p.closes() }
			_, err := w.ExecCommand(tethertest.Within(w.t), ExecArgs{Cmd: "x"})
			return err
		},
		"about a retry, in a poll": func(w world) error {
			id := wantRunning(w.t, w.exec(ExecArgs{Cmd: "x", YieldTimeMs: ptr[int64](1)}), "")
			w.e.all()[0].exits(client.Exit{Code: 1, SandboxDenied: true})
			_, err := w.WriteStdin(tethertest.Within(w.t), StdinArgs{SessionID: id, YieldTimeMs: ptr[int64](atEnd)})
			return err
		},
	} {
		for _, notices := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%t", name, notices), func(t *testing.T) {
				asked, withdrawn, answer := make(chan struct{}), make(chan struct{}), make(chan struct{})
				defer close(answer)
				e := &fake{sandboxType: "linuxSeccomp"}
				r := newRigOn(t, e, func(c *Config) {
					sandboxed(ReadOnly(), granular)(c)
					c.Approver = ApproverFunc(func(ctx context.Context, _ Question) (Decision, error) {
						close(asked)
						if notices {
							<-ctx.Done()
							close(withdrawn)
						} else {
							close(withdrawn)
							<-answer
						}
						return Approved, nil
					})
				})
				outcome := make(chan error, 1)
				go func() { outcome <- begin(world{r, e}) }()
				<-asked
				before := len(e.all())
				r.Close()
				<-withdrawn
				select {
				case err := <-outcome:
					if !errors.Is(err, ErrClosed) {
						t.Errorf("the call: %v", err)
					}
				case <-tethertest.Within(t).Done():
					t.Error("the call waits for the answer")
				}
				if n := len(e.all()); n != before {
					t.Errorf("%d processes were started after Close", n-before)
				}
			})
		}
	}
}

// A call that waits for output fails when the manager is closed. It does not return the
// exit code of a command that Close has ended.
func TestCloseDuringACall(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.wantShown(r.exec(ExecArgs{Cmd: "echo up; sleep 60", Login: ptr(false), YieldTimeMs: ptr[int64](1000)}), "up\n")
	outcomes := make(chan error, 2)
	expect := func(result *Result, err error) {
		if result != nil {
			err = fmt.Errorf("a result:\n%s", result.Text())
		}
		outcomes <- err
	}
	go func() {
		expect(r.ExecCommand(t.Context(), ExecArgs{Cmd: "sleep 60", Login: ptr(false), YieldTimeMs: ptr[int64](atEnd)}))
	}()
	go func() {
		expect(r.WriteStdin(t.Context(), StdinArgs{SessionID: id, YieldTimeMs: ptr[int64](atEnd)}))
	}()
	tethertest.Eventually(t, func() error {
		r.Manager.mu.Lock()
		s := r.sessions[id]
		r.Manager.mu.Unlock()
		if n := len(r.Sessions()); n != 2 || !s.isLocked() {
			return fmt.Errorf("%d sessions, polled: %t", n, s.isLocked())
		}
		return nil
	})
	r.Close()
	for range 2 {
		if err := <-outcomes; !errors.Is(err, ErrClosed) {
			t.Errorf("a call under way: %v", err)
		}
	}
}

// outOfReach is an executor that has lost its connection.
type outOfReach struct{ *fake }

func (e outOfReach) Start(ctx context.Context, cmd client.Command) (Process, error) {
	p, err := e.fake.Start(ctx, cmd)
	return unreachable{p.(*fakeProcess)}, err
}

type unreachable struct{ *fakeProcess }

func (p unreachable) Connection() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
func (p unreachable) Abandon() { p.fakeProcess.Terminate(context.Background()) }
func (p unreachable) Terminate(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Close does not wait for an executor that cannot be reached; its processes are ended later.
func TestCloseWithUnreachableExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fake{}
		m, err := New(Config{Environments: []Environment{{ID: "e", Executor: outOfReach{e}, Cwd: "/"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.ExecCommand(t.Context(), ExecArgs{Cmd: "x", YieldTimeMs: ptr[int64](1)}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		m.Close()
		if took := time.Since(began); took > 0 || e.all()[0].terminations() != 1 {
			t.Errorf("Close took %v, and has ended the process %d times", took, e.all()[0].terminations())
		}
	})
}
