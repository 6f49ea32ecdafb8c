package rpc

import (
	"sync/atomic"
	"time"
)

// A moment is a time that one goroutine notes and others read. It includes the monotonic clock,
// which nanoseconds since 1970 would not: when the wall clock is set, or the machine was
// suspended, no connection looks silent or alive because of that.
type moment struct {
	from  time.Time // set by begin, before the moment is shared
	after atomic.Int64
}

// begin notes the present for the first time.
func (m *moment) begin() { m.from = time.Now() }

// note notes the present.
func (m *moment) note() { m.after.Store(int64(time.Since(m.from))) }

// time is the last time that was noted.
func (m *moment) time() time.Time { return m.from.Add(time.Duration(m.after.Load())) }
