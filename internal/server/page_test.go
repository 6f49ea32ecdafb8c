//go:build unix

package server_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// readPage reads a page of the process p of a session.
func readPage(t *testing.T, c *tethertest.Client, session string, more map[string]any) (r wire.ReadAnyResult) {
	t.Helper()
	params := map[string]any{"sessionId": session, "processId": "p"}
	for name, value := range more {
		params[name] = value
	}
	m := c.Call(wire.MethodProcessReadAny, params)
	if m.Error != nil {
		t.Fatal(m.Error)
	}
	if err := wire.Decode(m.Result, &r); err != nil {
		t.Fatalf("%.1000s: %v", m.Raw, err)
	}
	for i, e := range r.Events {
		if i > 0 && e.Seq != r.Events[i-1].Seq+1 {
			t.Fatalf("event %d follows %d", e.Seq, r.Events[i-1].Seq)
		}
	}
	return r
}

// Another client reads the whole log of a process, in both directions, in memory and on disk, and the process and its client see nothing of it.
func TestPagesOfAnotherSession(t *testing.T) {
	t.Parallel()
	owner, other, public := twoSessions(t, server.Config{})
	owner.Start(tethertest.Shell("p", `i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; seq 400000; exit 3`, nil))
	out := owner.Finish("p", 0)
	var before tethertest.Listed
	tethertest.Eventually(t, func() (err error) { // the server notes that the last event is sent after its client has it
		before, err = other.Listed("p")
		if err == nil && before.SentSeq != out.Last {
			err = fmt.Errorf("%+v", before)
		}
		return err
	})
	if before.HeldBytes < 2<<20 { // more than is kept in memory
		t.Fatalf("%+v", before)
	}

	const page = 100_000
	var back, forward []wire.LogEvent
	for next := before.NextSeq + 1000; ; {
		r := readPage(t, other, public, map[string]any{"beforeSeq": next, "maxBytes": page})
		if r.FirstSeq != 1 || r.NextSeq != before.NextSeq {
			t.Fatalf("%d to %d", r.FirstSeq, r.NextSeq)
		}
		if len(r.Events) == 0 {
			break
		}
		cost := 0
		for _, e := range r.Events {
			cost += len(e.Chunk) + wire.PagedEvent
		}
		if last := r.Events[len(r.Events)-1].Seq; last+1 != min(next, r.NextSeq) || cost > page {
			t.Fatalf("a page of %d ends with event %d, before %d", cost, last, next)
		}
		next = r.Events[0].Seq
		back = append(r.Events, back...)
	}
	for after := uint64(0); ; {
		r := readPage(t, other, public, map[string]any{"afterSeq": after, "maxBytes": page})
		if len(r.Events) == 0 {
			break
		}
		after = r.Events[len(r.Events)-1].Seq
		forward = append(forward, r.Events...)
	}
	for direction, events := range map[string][]wire.LogEvent{"back": back, "forward": forward} {
		var text [2]bytes.Buffer
		for i, e := range events {
			if e.Seq != uint64(i)+1 || e.TimeMs == 0 {
				t.Fatalf("%s: %+v is at place %d", direction, e, i)
			}
			if e.Kind == "" {
				text[map[string]int{"stdout": 0, "stderr": 1}[e.Stream]].Write(e.Chunk)
			}
		}
		if text[0].String() != out.Text["stdout"] || text[1].String() != out.Text["stderr"] {
			t.Errorf("%s: %d and %d bytes, want %d and %d", direction, text[0].Len(), text[1].Len(), len(out.Text["stdout"]), len(out.Text["stderr"]))
		}
		exited, closed := events[len(events)-2], events[len(events)-1]
		if exited.Kind != wire.EventExited || exited.ExitCode == nil || *exited.ExitCode != 3 || exited.TetherUsage == nil || closed.Kind != wire.EventClosed {
			t.Errorf("%s: the end is %+v, %+v", direction, exited, closed)
		}
	}
	if after, err := other.Listed("p"); err != nil || after.SentSeq != before.SentSeq || after.HeldBytes != before.HeldBytes || after.Observers != 0 {
		t.Errorf("it was %+v and is %+v, %v", before, after, err)
	}
}

// A page has a size that is known beforehand, however small the events are, and at least one event.
func TestSizesOfPages(t *testing.T) {
	t.Parallel()
	owner, other, public := twoSessions(t, server.Config{})
	owner.Start(tethertest.Shell("p", `i=0; while [ $i -lt 3000 ]; do echo; echo >&2; i=$((i+1)); done; head -c 1200000 /dev/zero`, nil))
	owner.Finish("p", 0)
	for _, row := range []struct {
		max  any
		most int
	}{{nil, wire.DefaultPage}, {0, 64 << 10}, {1, 64 << 10}, {70_000, 70_000}, {uint64(1 << 63), wire.MaxPage}} {
		for _, from := range []map[string]any{{"afterSeq": 0}, {"afterSeq": 10}, {"beforeSeq": 1 << 53}, {"beforeSeq": 2}, {}} {
			from["maxBytes"] = row.max
			m := other.Call(wire.MethodProcessReadAny, map[string]any{"sessionId": public, "processId": "p", "maxBytes": row.max, "afterSeq": from["afterSeq"], "beforeSeq": from["beforeSeq"]})
			if limit := (row.most+wire.PagedEvent)*4/3 + 4096; m.Error != nil || len(m.Raw) > limit {
				t.Errorf("%v: %d bytes, more than %d; %.100s", from, len(m.Raw), limit, m.Raw)
			}
			if r := readPage(t, other, public, from); len(r.Events) == 0 {
				t.Errorf("%v: no event", from)
			}
		}
	}
	for _, from := range []map[string]any{{"beforeSeq": 0}, {"beforeSeq": 1}, {"afterSeq": uint64(1<<64 - 1)}, {"afterSeq": 1 << 53}} {
		if r := readPage(t, other, public, from); len(r.Events) != 0 || r.FirstSeq != 1 {
			t.Errorf("%v: %+v", from, r)
		}
	}
	if m := other.Call(wire.MethodProcessReadAny, map[string]any{"processId": "p", "afterSeq": 1, "beforeSeq": 2}); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
		t.Errorf("both directions: %s", m.Raw)
	}
}

// Output that is not kept any more is missing at the beginning of a page, never in its middle.
func TestPagesOfALogThatForgets(t *testing.T) {
	t.Parallel()
	owner, other, public := twoSessions(t, server.Config{Retain: 1})
	owner.Start(tethertest.Shell("p", `seq 500000; read x; seq 500000; read y`, map[string]any{"pipeStdin": true}))
	tethertest.Eventually(t, func() error {
		if r := readPage(t, other, public, nil); r.FirstSeq == 1 {
			return fmt.Errorf("nothing is forgotten yet: %d to %d", r.FirstSeq, r.NextSeq)
		}
		return nil
	})
	old := readPage(t, other, public, map[string]any{"beforeSeq": 2})
	if len(old.Events) != 0 || old.FirstSeq == 1 {
		t.Errorf("forgotten events: %+v", old)
	}
	owner.Write("p", "1", "\n")
	for range 50 {
		r := readPage(t, other, public, map[string]any{"afterSeq": 0})
		if len(r.Events) > 0 && r.Events[0].Seq < old.FirstSeq {
			t.Errorf("event %d, though %d was the oldest", r.Events[0].Seq, old.FirstSeq)
		}
		next := r.NextSeq
		if r = readPage(t, other, public, map[string]any{"beforeSeq": next}); len(r.Events) > 0 && r.Events[len(r.Events)-1].Seq != next-1 {
			t.Errorf("the page before %d ends with %d", next, r.Events[len(r.Events)-1].Seq)
		}
	}
	owner.Terminate("p")
}
