package cable

import (
	"context"
	"sync"
	"time"
)

// Troubles are faults by the clock. Of a pair, the first is how often and the second for how long;
// never if the first is 0.
type Troubles struct {
	CutEvery, CutFor       time.Duration
	FreezeEvery, FreezeFor time.Duration
}

// Trouble cuts and freezes the cable by the clock until ctx ends.
func (c *Cable) Trouble(ctx context.Context, t Troubles) {
	var clocks sync.WaitGroup // they end with ctx
	clocks.Go(func() { everySoOften(ctx, t.CutEvery, t.CutFor, c.Cut, c.Mend) })
	clocks.Go(func() {
		everySoOften(ctx, t.FreezeEvery, t.FreezeFor, func() { c.Freeze() }, func() { c.Thaw() })
	})
	clocks.Wait()
}

// everySoOften waits, begins something, waits and ends it, until ctx ends. With every 0 it never
// begins.
func everySoOften(ctx context.Context, every, duration time.Duration, begin, end func()) {
	if every == 0 {
		<-ctx.Done()
		return
	}
	for pause(ctx, every) {
		begin()
		pause(ctx, duration)
		end()
	}
}

// pause waits; false means that ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
