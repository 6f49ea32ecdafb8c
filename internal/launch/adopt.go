package launch

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/netproxy"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
)

// A Found is a command that another program has started and recorded in a slot.
type Found struct {
	Command *Command
	Slot    *arena.Slot
	Log     *outlog.Log // as it was reopened
	Files   map[proc.Which]*os.File

	LauncherFiles map[proc.Which]*os.File // of its sandbox
	Policy        []byte                  // as Record.Policy got it; nil: unknown
}

// Adopt takes over a command, and serves its network again. It returns proc.ErrNeverStarted if the command was
// never executed.
func (l *Launcher) Adopt(ctx context.Context, f Found) (*proc.Process, error) {
	c := f.Command
	a := proc.Adoption{Spec: l.spec(c), Files: f.Files, Sink: f.Log, Closed: f.Log.State().Closed}
	a.Spec.Slot = f.Slot
	var n *network
	buried, known := proc.Buried(f.Slot)
	if !a.Closed && !buried && f.Slot.State.Load() != arena.SlotTaken { // else there is no process
		n = l.restoreNetwork(f, a.Spec.Env)
	}
	judged := confined(c.params) && (known || !buried) // the sandbox has not ended a command that was lost
	if judged {
		launched, _, _ := proc.Launches(f.Slot)
		if launched && !buried {
			a.Spec.Launcher = l.adoptLauncher(f, n)
		}
		if c.unconfined = !launched && f.Policy == nil; !c.unconfined {
			if f.Policy != nil {
				c.bound.Store(&boundPolicy{encoded: f.Policy})
			}
			a.Spec.LateOutput, a.Sink = confine.LateOutput, l.judged(f)
		}
	}
	child, err := l.config.Procs.Adopt(ctx, a)
	c.child.Store(child)
	if a.Spec.Launcher != nil && (err != nil || a.Closed) {
		a.Spec.Launcher.Ended()
	}
	switch {
	case n == nil:
	case err != nil:
		n.close()
	default:
		l.endWith(child, n)
	}
	if state := f.Log.State(); err == nil && state.Exited && state.ExitCode != 0 && judged && !c.unconfined {
		c.denial = l.judged(f).judge(state.ExitCode)
	}
	return child, err
}

// judged returns the log of a confined command.
func (l *Launcher) judged(f Found) *judgedLog {
	return &judgedLog{Log: f.Log, command: f.Command, logger: l.log}
}

// adoptLauncher makes the launcher of a command, with its way out of a managed network.
func (l *Launcher) adoptLauncher(f Found, n *network) *proc.Launcher {
	a := confine.Adoption{Files: f.LauncherFiles}
	_, a.Stays, a.Reported = proc.Launches(f.Slot)
	count := 0
	for which := range f.LauncherFiles {
		if which >= proc.HeldListener {
			count++
		}
	}
	if n != nil && n.gate != nil {
		a.Gate = n.gate
		listeners, _ := n.gate.Ports()
		count = max(count, listeners)
	}
	a.Closed = func(why error) { l.networkClosed(f, count, why) }
	return l.config.Confiner.Adopt(a)
}

// networkClosed reports that a command has no network any more, and lets its connections fail.
func (l *Launcher) networkClosed(f Found, listeners int, why error) {
	l.log.Error("the network of a command stays closed: it cannot be served again", "process", f.Command.params.ProcessID, "err", why)
	l.config.Procs.DropListeners(f.Slot, listeners)
}

// restoreNetwork opens the network that the command had, with the same rules and sockets; nil: none of its own, or
// none any more.
func (l *Launcher) restoreNetwork(f Found, env []string) *network {
	found := 0
	n, err := l.openNetwork(f.Command, env, func(socks bool) (listeners []net.Listener, err error) {
		for which := proc.HeldListener; f.Files[which] != nil && err == nil; which++ {
			var one net.Listener
			if one, err = net.FileListener(f.Files[which]); err == nil {
				listeners = append(listeners, one)
			}
			found++
		}
		if want := netproxy.Listeners(socks); err == nil && len(listeners) != want {
			err = fmt.Errorf("%d of the %d sockets of its proxy are there", len(listeners), want)
		}
		if err != nil {
			for _, one := range listeners {
				one.Close()
			}
		}
		return listeners, err
	})
	if err != nil {
		l.networkClosed(f, found, err)
		return nil
	}
	return n
}
