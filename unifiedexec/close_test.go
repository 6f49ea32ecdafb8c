package unifiedexec

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/client"
)

// slowToEnd are processes that take a second to die.
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

// Whoever calls Close finds that all has ended, also while another one is closing.
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
			t.Error("Close has returned, and the process runs")
		}
	})
}

// A call that is given up while a session starts its second attempt leaves it a session.
func TestGivenUpInTheSecondAttempt(t *testing.T) {
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
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond) // in the grace of the second one
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
