//go:build mcp || fleet || !split

package main

import (
	"bytes"
	"context"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// nearTail is how many bytes of output before the last line are printed as a whole, if only the last lines are wanted. A line can have begun
// long before it ends, because other output has come in between: if it began before that, only its end is printed.
const nearTail = 1 << 20

// skip moves the beginning of the output forward, if only the last lines are wanted: most of the output before them is not transferred.
func (r *logRequest) skip(ctx context.Context, conn *connection, p *wire.ProcessInfo) error {
	newest := p.NextSeq - 1
	switch {
	case r.tail < 0 || r.grep != "":
		return nil
	case r.asJSON: // events are counted
		r.since.seq = max(r.since.seq, newest-min(newest, uint64(r.tail)))
		return nil
	case !conn.Has(client.FeatureReadAny):
		return nil
	}
	remote := conn.Remote(p.SessionID, p.ProcessID)
	lines, size := 0, 0
	for before := newest + 1; before > r.since.seq+1; {
		page, err := remote.PageBefore(ctx, before, 0)
		if err != nil {
			return err
		}
		if len(page.Events) == 0 {
			return nil
		}
		for _, e := range page.Events {
			lines += bytes.Count(e.Data, []byte("\n"))
			size += len(e.Data)
		}
		before = page.Events[0].Seq
		if lines > int(r.tail) && size >= nearTail { // more, because a part of the first one may be missing
			r.since.seq = max(r.since.seq, before-1)
			return nil
		}
	}
	return nil
}
