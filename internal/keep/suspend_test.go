//go:build linux && (amd64 || arm64)

package keep

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// suspend stops the keeper as a terminal does, and returns when its worker has stopped, too.
func (r *rig) suspend(worker int) {
	r.t.Helper()
	unix.Kill(-r.pid, unix.SIGTSTP)
	r.until("keeper and worker have stopped", func() bool { return state(r.pid) == 'T' && state(worker) == 'T' })
}

// Keeper and worker stop together on SIGTSTP, and go on together, before and after the keeper was replaced. The time between does not
// count for the worker, and nothing is lost.
func TestSuspend(t *testing.T) {
	t.Parallel()
	const beat = 3 * time.Second
	r := startRig(t, firstStage{Job: true, Beat: beat})
	first := r.ask(request{Do: "hold", Slot: 1, Text: "in the pipe"})
	for _, long := range []bool{true, false} {
		r.suspend(first.Pid)
		if long {
			over := now() + int(beat) + lateness/3 // after lateness the keeper would notice that it is late itself
			r.until("the beat would be overdue", func() bool { return now() > over })
		}
		unix.Kill(-r.pid, unix.SIGCONT)
		r.until("keeper and worker go on", func() bool { return state(r.pid) == 'S' && state(first.Pid) == 'S' })
		r.ask(request{Do: "renew"})
		if now := r.ask(request{}); now.Pid != first.Pid {
			t.Errorf("the worker was replaced: %+v", now)
		}
	}
	r.killWorker(unix.SIGKILL)
	if got := r.ask(request{Do: "read", Slot: 1}).Text; got != "in the pipe" {
		t.Errorf("the pipe has %q", got)
	}
	r.stop(unix.SIGTERM, 0)
}

// If the keeper is killed while it is stopped, the worker goes on and ends everything.
func TestKilledWhileSuspended(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{Job: true})
	r.ask(request{Do: "run", Slot: 1, Text: "cat"})
	r.suspend(r.ask(request{}).Pid)
	r.stop(unix.SIGKILL, -1)
}

// Without a shell that could continue the server, as for a service, SIGTSTP has no effect.
func TestSuspendWithoutShell(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{})
	first := r.ask(request{})
	unix.Kill(r.pid, unix.SIGTSTP)
	r.ask(request{Do: "renew"}) // by now the signal was handled
	if now := r.ask(request{}); now.Pid != first.Pid {
		t.Errorf("the worker was replaced: %+v", now)
	}
	r.stop(unix.SIGTERM, 0)
}

// Signals that were ignored at the start have no effect, before and after the keeper was replaced. (Shells ignore SIGQUIT together
// with SIGINT.)
func TestIgnoredSignals(t *testing.T) {
	t.Parallel()
	r := startRig(t, firstStage{Job: true, Ignore: "INT QUIT TSTP TTIN TTOU HUP"})
	first := r.ask(request{})
	for range 3 {
		for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGHUP} {
			unix.Kill(r.pid, sig)
		}
		r.ask(request{Do: "renew"}) // by now the signals were handled
		if now := r.ask(request{}); now.Pid != first.Pid {
			t.Errorf("the worker was replaced: %+v", now)
		}
	}
	if next := r.killWorker(unix.SIGKILL); next.Number != 2 {
		t.Errorf("the next worker: %+v", next)
	}
	r.stop(unix.SIGTERM, 0)
}
