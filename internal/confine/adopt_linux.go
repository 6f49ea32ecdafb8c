package confine

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// Adopt returns the launcher of a command that another program has started.
func (c *Confiner) Adopt(a Adoption) *proc.Launcher {
	l := &launch{confiner: c, launcher: &proc.Launcher{Stays: a.Stays}, gate: a.Gate}
	if l.gate != nil {
		l.listens, _ = l.gate.Ports()
	}
	if err := l.serveAgain(a.listeners(), a.Reported); err != nil {
		a.Closed(err)
	}
	l.launcher.Ended = func() {
		l.end()
		for _, f := range a.Files {
			f.Close()
		}
		if a.Files[proc.HeldLock] != nil {
			c.tasks.Go(c.sweepFreed) // Close waits for it
		}
	}
	if report := a.Files[proc.HeldReport]; report != nil {
		channel := stage.OpenChannel(report)
		l.launcher.Confirm = func(ctx context.Context, keep func(proc.Launched, []*os.File) error) (proc.Launched, error) {
			launched, listeners, err := channel.Await(ctx, keep)
			if why := l.serveAgain(listeners, err == nil && l.listeners == nil); why != nil {
				a.Closed(why) // the command runs: it must not be started again
			}
			return launched, err
		}
	}
	return l.launcher
}

// listeners takes the sockets of the gate out of the files.
func (a *Adoption) listeners() (sockets []*os.File) {
	for which := proc.HeldListener; a.Files[which] != nil; which++ {
		sockets = append(sockets, a.Files[which])
		delete(a.Files, which)
	}
	return sockets
}

// serveAgain passes the sockets of an adopted command to its gate. all: they must be complete. After an
// error, or if there is no gate, or if it serves already, they are closed.
func (l *launch) serveAgain(sockets []*os.File, all bool) error {
	if l.gate != nil && l.listeners == nil && (all || len(sockets) > 0) {
		return l.serve(sockets)
	}
	for _, f := range sockets {
		f.Close()
	}
	if l.gate == nil && len(sockets) > 0 {
		return errors.New("it has no proxies any more")
	}
	return nil
}

// keeperTime is how long the keeper may take to close its copies of descriptors.
const keeperTime = 50 * time.Millisecond

// sweepFreed removes the placeholders of an adopted command that has ended, when the keeper has closed its copies of
// their locks.
func (c *Confiner) sweepFreed() {
	if _, err := c.Support(c.ctx); err != nil {
		return
	}
	select {
	case <-time.After(keeperTime):
		if err := c.ledger.Sweep(); err != nil {
			c.config.Log.Warn("cannot remove the placeholders of a command", "err", err)
		}
	case <-c.ctx.Done(): // Close of the ledger, or the next server, removes them
	}
}
