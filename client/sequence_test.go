package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tetherexec/tether/wire"
)

// eventsText is the text of events: o1 is output 1, x the exit, c the close, g2-4 a gap.
func eventsText(events []Event) string {
	var words []string
	for _, e := range events {
		switch e.Kind {
		case Output:
			words = append(words, fmt.Sprintf("o%d", e.Seq))
		case Exited:
			words = append(words, fmt.Sprintf("x%d", e.Seq))
		case Closed:
			words = append(words, fmt.Sprintf("c%d", e.Seq))
		case Gap:
			words = append(words, fmt.Sprintf("g%d-%d", e.First, e.Seq))
		}
	}
	return strings.Join(words, " ")
}

func out(seq uint64) Event { return Event{Kind: Output, Seq: seq, Data: []byte{byte(seq)}} }

func answer(next uint64, chunks ...uint64) *wire.ReadResult {
	r := &wire.ReadResult{NextSeq: next}
	for _, seq := range chunks {
		r.Chunks = append(r.Chunks, wire.OutputChunk{Seq: seq, Chunk: wire.Base64{byte(seq)}})
	}
	return r
}

func exited(r *wire.ReadResult, closed bool) *wire.ReadResult {
	code := 7
	r.Exited, r.ExitCode, r.Closed = true, &code, closed
	return r
}

func TestSequence(t *testing.T) {
	t.Parallel()
	exit := func(seq uint64) Event { return Event{Kind: Exited, Seq: seq} }
	closing := func(seq uint64) Event { return Event{Kind: Closed, Seq: seq} }
	for name, c := range map[string]struct {
		live []Event
		read *wire.ReadResult
		want string
		err  string
	}{
		"F45 out of order, one twice":              {live: []Event{out(2), out(3), out(1), out(1)}, want: "o1 o2 o3"},
		"F46 closed before the last output":        {live: []Event{out(1), closing(4), exit(3), out(2)}, want: "o1 o2 x3 c4"},
		"F47 one is lost, and read":                {live: []Event{out(1), out(3), exit(4), closing(5)}, read: exited(answer(6, 2, 3), true), want: "o1 o2 o3 x4 c5"},
		"F16 everything in one read":               {live: []Event{out(1)}, read: exited(answer(5, 2), true), want: "o1 o2 x3 c4"},
		"F17 output after the exit":                {live: []Event{out(1)}, read: exited(answer(6, 2, 4), true), want: "o1 o2 x3 o4 c5"},
		"exit, not closed":                         {live: []Event{out(1)}, read: exited(answer(4, 2), false), want: "o1 o2 x3"},
		"exit in between, not closed":              {live: []Event{out(1)}, read: exited(answer(5, 2, 4), false), want: "o1 o2 x3 o4"},
		"nothing new":                              {live: []Event{out(1)}, read: answer(2), want: "o1"},
		"an old answer":                            {live: []Event{out(1), out(2)}, read: answer(2, 1), want: "o1 o2"},
		"events that are known already":            {live: []Event{out(1), out(2), out(3)}, read: answer(4, 2, 3), want: "o1 o2 o3"},
		"an early event after the answer stays":    {live: []Event{out(4)}, read: answer(3, 1, 2), want: "o1 o2"},
		"early ones that follow the answer":        {live: []Event{out(3), out(4)}, read: answer(3, 1, 2), want: "o1 o2 o3 o4"},
		"F19 evicted output":                       {live: []Event{out(1)}, read: answer(7, 5, 6), want: "o1 g2-4 o5 o6"},
		"evicted output, and the exit":             {live: []Event{out(1)}, read: exited(answer(8, 4, 5), true), want: "o1 g2-3 o4 o5 x6 c7"},
		"everything evicted, exited and closed":    {live: []Event{out(1)}, read: exited(answer(8), true), want: "o1 g2-5 x6 c7"},
		"everything evicted":                       {live: []Event{out(1)}, read: answer(8), want: "o1 g2-7"},
		"early ones fill the gap":                  {live: []Event{out(3)}, read: answer(5, 4), want: "g1-2 o3 o4"},
		"an early exit is not invented again":      {live: []Event{out(1), exit(3)}, read: exited(answer(4, 2), false), want: "o1 o2 x3"},
		"F53 a chunk where the close should be":    {live: nil, read: exited(answer(4, 1, 3), true), err: "process close sequence 3 conflicts with recovered output"},
		"an early event where the close should be": {live: []Event{out(3)}, read: exited(answer(4, 1), true), err: "process close sequence 3 conflicts"},
		"F54 an exit without a code":               {read: &wire.ReadResult{NextSeq: 2, Exited: true}, err: "did not include its exit code"},
		"a chunk beyond the end":                   {read: answer(2, 5), err: "recovered process output sequence 5 exceeds target sequence 1"},
		"no room for the exit":                     {read: exited(answer(3, 1, 2), false), err: "no longer retained while recovering through sequence 2"},
		"a failure":                                {read: &wire.ReadResult{NextSeq: 2, Failure: new(string)}, err: "protocol error"},
	} {
		t.Run(name, func(t *testing.T) {
			var s sequence
			var got []Event
			publish := func(e Event) { got = append(got, e) }
			for _, e := range c.live {
				s.add(e, publish)
			}
			var err error
			if c.read != nil {
				err = s.catchUp(c.read, publish)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || eventsText(got) != c.want {
				t.Errorf("published %q, %v; want %q", eventsText(got), err, c.want)
			}
		})
	}
}

// The limits of events that wait for a missing one.
func TestSequenceLimits(t *testing.T) {
	t.Parallel()
	var s sequence
	none := func(e Event) { t.Errorf("published %+v", e) }
	for seq := uint64(2); seq < 2+maxEarly; seq++ {
		if !s.add(out(seq), none) {
			t.Fatalf("event %d was refused", seq)
		}
	}
	if s.add(out(2+maxEarly), none) {
		t.Error("F49 one more than 256 early events was kept")
	}
	if !s.behind() {
		t.Error("a missing event is not noticed")
	}
	s = sequence{}
	big := Event{Kind: Output, Seq: 2, Data: make([]byte, maxEarlyBytes)}
	if !s.add(big, none) || s.add(Event{Kind: Output, Seq: 3, Data: []byte{1}}, none) {
		t.Error("F50 more than 1 MiB was kept")
	}
}

// Some events arrive late, twice or not at all. If the client reads often enough, it publishes
// all events once and in order.
func TestSequenceModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		outputs := rapid.IntRange(0, 20).Draw(t, "outputs")
		exitAt := uint64(rapid.IntRange(1, outputs+1).Draw(t, "exit"))
		end := uint64(outputs) + 2 // the number of the close
		kind := func(seq uint64) Event {
			switch seq {
			case exitAt:
				return Event{Kind: Exited, Seq: seq}
			case end:
				return Event{Kind: Closed, Seq: seq}
			}
			return out(seq)
		}
		// upTo is the answer to a read when the log has so many events.
		upTo := func(after, now uint64) *wire.ReadResult {
			r := answer(now + 1)
			for seq := after + 1; seq <= now; seq++ {
				if kind(seq).Kind == Output {
					r.Chunks = append(r.Chunks, wire.OutputChunk{Seq: seq, Chunk: wire.Base64{1}})
				}
			}
			if exitAt <= now {
				exited(r, now == end)
			}
			return r
		}
		var s sequence
		var got []Event
		publish := func(e Event) { got = append(got, e) }
		now := uint64(0)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1: // an event happens, and may be sent
				now = min(now+1, end)
				if rapid.Bool().Draw(t, "sent") {
					s.add(kind(now), publish)
				}
			case 2: // an old event is sent
				if now > 0 {
					s.add(kind(uint64(rapid.IntRange(1, int(now)).Draw(t, "old"))), publish)
				}
			case 3:
				if err := s.catchUp(upTo(s.last, now), publish); err != nil {
					t.Fatal(err)
				}
				if s.last != now {
					t.Fatalf("caught up to %d of %d", s.last, now)
				}
			}
		}
		if err := s.catchUp(upTo(s.last, end), publish); err != nil {
			t.Fatal(err)
		}
		var want []Event
		for seq := uint64(1); seq <= end; seq++ {
			want = append(want, kind(seq))
		}
		if eventsText(got) != eventsText(want) {
			t.Fatalf("published %s\nwant      %s", eventsText(got), eventsText(want))
		}
	})
}

// For any answer of a server, published numbers only go up and have no gaps.
func FuzzCatchUp(f *testing.F) {
	f.Add(uint64(5), []byte{2, 3}, true, true, []byte{4})
	f.Fuzz(func(t *testing.T, next uint64, chunks []byte, exit, closed bool, live []byte) {
		var s sequence
		var got []Event
		publish := func(e Event) { got = append(got, e) }
		for _, seq := range live {
			s.add(out(uint64(seq)), publish)
		}
		r := answer(next % 300)
		for _, seq := range chunks {
			r.Chunks = append(r.Chunks, wire.OutputChunk{Seq: uint64(seq)})
		}
		if exit {
			exited(r, closed)
		}
		r.Closed = closed
		s.catchUp(r, publish)
		last := uint64(0)
		for _, e := range got {
			first := e.Seq
			if e.Kind == Gap {
				first = e.First
			}
			if first != last+1 || e.Seq < first {
				t.Fatalf("after %d: %s", last, eventsText(got))
			}
			last = e.Seq
		}
		if i := slices.IndexFunc(got, func(e Event) bool { return e.Kind == Closed }); i >= 0 && i < len(got)-1 {
			t.Fatalf("after the close: %s", eventsText(got))
		}
	})
}
