package confine

import (
	"context"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// Adopt returns the launcher of a command that another program has started, from the descriptors that its keeper
// held for the launcher. They belong to it.
func (c *Confiner) Adopt(files map[proc.Which]*os.File, stays bool) *proc.Launcher {
	var channel *stage.Channel
	if f := files[proc.HeldReport]; f != nil {
		channel = stage.OpenChannel(f)
	}
	l := &proc.Launcher{Stays: stays, Ended: func() {
		for _, f := range files {
			f.Close()
		}
		if files[proc.HeldLock] != nil {
			c.tasks.Go(c.sweepFreed) // Close waits for it
		}
	}}
	if channel != nil {
		l.Confirm = func(ctx context.Context) (proc.Launched, error) {
			launched, listeners, err := channel.Await(ctx)
			for _, one := range listeners { // the proxy that they led to has ended
				one.Close()
			}
			return launched, err
		}
	}
	return l
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
