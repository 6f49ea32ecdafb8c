package launch

import (
	"context"
	"os"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/confine"
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
}

// Adopt takes over a command. It returns proc.ErrNeverStarted if the command was never executed.
// What is known about its sandbox is less than after Start: whether the sandbox made it fail is
// decided from the exit code and the output, without details.
func (l *Launcher) Adopt(ctx context.Context, f Found) (*proc.Process, error) {
	c := f.Command
	a := proc.Adoption{Spec: l.spec(c), Files: f.Files, Sink: f.Log, Closed: f.Log.State().Closed}
	a.Spec.Slot = f.Slot
	if confined(c.params) {
		launched, stays := proc.Launches(f.Slot)
		if c.unconfined = !launched; launched {
			a.Spec.LateOutput = confine.LateOutput
			a.Spec.Launcher = l.config.Confiner.Adopt(f.LauncherFiles, stays)
			a.Sink = &judgedLog{Log: f.Log, command: c, logger: l.log}
		}
	}
	child, err := l.config.Procs.Adopt(ctx, a)
	if a.Spec.Launcher != nil && (err != nil || a.Closed) {
		a.Spec.Launcher.Ended()
	}
	if state := f.Log.State(); err == nil && state.Exited && state.ExitCode != 0 && confined(c.params) && !c.unconfined {
		c.denial = (&judgedLog{Log: f.Log, command: c, logger: l.log}).judge(state.ExitCode)
	}
	return child, err
}
