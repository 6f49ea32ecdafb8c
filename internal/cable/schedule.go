package cable

import (
	"context"
	"sync"
	"time"
)

// A Schedule has faults at regular times. CutEvery is the time between faults and CutFor the
// duration of each, and likewise for freezes. If the first is 0, there are none.
type Schedule struct {
	CutEvery, CutFor       time.Duration
	FreezeEvery, FreezeFor time.Duration
}

// RunSchedule cuts and freezes the cable by the schedule until ctx ends.
func (c *Cable) RunSchedule(ctx context.Context, t Schedule) {
	var clocks sync.WaitGroup // both end with ctx
	clocks.Go(func() { repeat(ctx, t.CutEvery, t.CutFor, c.Cut, c.Mend) })
	clocks.Go(func() {
		repeat(ctx, t.FreezeEvery, t.FreezeFor, func() { c.Freeze() }, func() { c.Thaw() })
	})
	clocks.Wait()
}

// repeat waits, calls begin, waits and calls end, until ctx ends. If every is 0, it never calls
// them.
func repeat(ctx context.Context, every, duration time.Duration, begin, end func()) {
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

// pause waits. It reports false if ctx has ended.
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
