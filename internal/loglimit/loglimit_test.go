package loglimit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Limit
		flood := func() (lines, dropped int) {
			for range 10_000 {
				if n, ok := l.Next(); ok {
					lines, dropped = lines+1, dropped+n
				}
			}
			return lines, dropped
		}
		if lines, dropped := flood(); lines != burst || dropped != 0 {
			t.Errorf("at first: %d lines, %d dropped", lines, dropped)
		}
		time.Sleep(5 * every)
		if lines, dropped := flood(); lines != 5 || dropped != 10_000-burst {
			t.Errorf("after five intervals: %d lines, %d dropped", lines, dropped)
		}
		time.Sleep(time.Hour)
		if lines, dropped := flood(); lines != burst || dropped != 10_000-5 {
			t.Errorf("after an hour: %d lines, %d dropped", lines, dropped)
		}
	})
}
