package unifiedexec

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// newRigOver is newRigAt with a cable in between.
func newRigOver(t *testing.T, url string, o client.Options) (*rig, *cable.Cable) {
	t.Helper()
	line := tethertest.LayCable(t, url)
	c, err := client.Dial(tethertest.Within(t), line.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := newRigOn(t, Remote(c), nil)
	r.client = c
	return r, line
}

// The text of a start whose outcome is unknown says so, and how to find out.
func TestUnknownStart(t *testing.T) {
	t.Parallel()
	r, line := newRigOver(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{RecoveryTimeout: 500 * time.Millisecond})
	line.On(cable.FromServer, cable.Answer(wire.MethodProcessStart), cable.CutBefore)
	_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "sleep 60", Login: ptr(false)})
	if !errors.Is(err, ErrCreateProcess) || !errors.Is(err, client.ErrAmbiguous) || !errors.Is(err, client.ErrSessionLost) {
		t.Fatalf("the call: %v", err)
	}
	for _, part := range []string{
		"exec_command failed: Failed to create unified exec process: it is not known whether the command was started: ",
		"the server did not come back within 500ms; last attempt: ",
		"The command may have run, or may be running: before you run it again, look for its effects",
		"`tether logs " + r.executor.starts()[0].ID + "`",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in:\n%v", part, err)
		}
	}
}

// If the executor refuses a command, the text does not say that it may have run.
func TestRefusedStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "true", Workdir: "/nonexistent"})
	if !errors.Is(err, ErrCreateProcess) || strings.Contains(err.Error(), "may have run") {
		t.Errorf("%v", err)
	}
}

// If the session of the executor is lost, the text says that the command was started.
func TestUnknownEnd(t *testing.T) {
	t.Parallel()
	r, line := newRigOver(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{RecoveryTimeout: 500 * time.Millisecond})
	id := wantRunning(t, r.exec(ExecArgs{Cmd: "sleep 60", Login: ptr(false), YieldTimeMs: ptr[int64](1)}), "")
	line.Cut()
	_, err := r.WriteStdin(tethertest.Within(t), StdinArgs{SessionID: id, YieldTimeMs: ptr[int64](atEnd)})
	if !errors.Is(err, ErrProcessFailed) || !strings.Contains(fmt.Sprint(err), ". The command was started, and it is unknown how it ended: before you run it again") {
		t.Errorf("the poll: %v", err)
	}
}

// If another client has taken over the session of the executor, the text says so.
func TestSessionTakenOver(t *testing.T) {
	t.Parallel()
	srv := tethertest.StartServer(t, server.Config{})
	r, line := newRigOver(t, srv.URL, client.Options{})
	id := wantRunning(t, r.exec(ExecArgs{Cmd: "sleep 60", Login: ptr(false), YieldTimeMs: ptr[int64](1)}), "")
	line.Freeze()
	other, err := client.Dial(tethertest.Within(t), srv.URL, client.Options{Resume: r.client.SessionID()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	line.Thaw()
	_, err = r.WriteStdin(tethertest.Within(t), StdinArgs{SessionID: id, YieldTimeMs: ptr[int64](atEnd)})
	if !errors.Is(err, client.ErrTakenOver) || !strings.Contains(fmt.Sprint(err), "Unified exec process failed: session was taken over by another client. ") {
		t.Errorf("the poll: %v", err)
	}
	if err := other.End(tethertest.Within(t)); err != nil {
		t.Error(err)
	}
}

// If the executor cannot be reached when the manager is closed, its commands are ended when the
// connection is back.
func TestCloseDuringAnOutage(t *testing.T) {
	t.Parallel()
	srv := tethertest.StartServer(t, server.Config{})
	r, line := newRigOver(t, srv.URL, client.Options{})
	wantRunning(t, r.exec(ExecArgs{Cmd: "exec sleep 60", Login: ptr(false), YieldTimeMs: ptr[int64](1)}), "")
	process := r.Sessions()[0].ProcessID
	line.Cut()
	<-r.client.Connection().Done()
	r.Close()
	line.Mend()
	observer, err := client.Dial(tethertest.Within(t), srv.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer observer.Close()
	tethertest.Eventually(t, func() error {
		list, err := observer.Processes(tethertest.Within(t), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if p.ProcessID == process && p.ExitCode == nil {
				return errors.New("the command is running")
			}
		}
		return nil
	})
}

// Close waits for the answer to a start that was sent, so that no command runs when it returns.
func TestCloseWaitsForAStart(t *testing.T) {
	t.Parallel()
	r, line := newRigOver(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	answer := line.On(cable.FromServer, cable.Answer(wire.MethodProcessStart), cable.Hold)
	outcome := make(chan error, 1)
	go func() {
		_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "sleep 60", Login: ptr(false)})
		outcome <- err
	}()
	if err := answer.Await(tethertest.Within(t), 1); err != nil {
		t.Fatal(err)
	}
	closed := make(chan int, 1)
	go func() {
		r.Close()
		closed <- r.executor.terminations()
	}()
	<-r.closing.Done()
	if err := answer.Release(); err != nil {
		t.Fatal(err)
	}
	if n := <-closed; n != 1 {
		t.Errorf("the command was terminated %d times when Close returned", n)
	}
	if err := <-outcome; !errors.Is(err, ErrClosed) {
		t.Errorf("the call: %v", err)
	}
	events := r.observed()
	if n := len(events); n == 0 || events[n-1].Kind != Ended || events[n-1].ExitCode <= 0 {
		t.Errorf("the end of the command was not seen: %+v", events)
	}
}
