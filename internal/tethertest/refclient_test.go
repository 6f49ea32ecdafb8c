package tethertest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// loose returns a process without a connection, for tests of the order of events.
func loose(out *strings.Builder) *RefProcess {
	c := &RefClient{processes: map[string]*RefProcess{}}
	return newRefProcess(c, RefStart{ID: "p", OnOutput: func(_ uint64, _ string, data []byte) { out.Write(data) }})
}

func output(seq uint64, text string) event {
	return event{seq: seq, kind: eventOutput, stream: "stdout", data: []byte(text)}
}

// answer decodes a process/read result; chunks are given as plain text.
func answer(t *testing.T, text string) readAnswer {
	t.Helper()
	var a readAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	for i, c := range a.Chunks {
		a.Chunks[i].Chunk = base64.StdEncoding.EncodeToString([]byte(c.Chunk))
	}
	return a
}

func TestRefProcessOrdersAndDropsDuplicates(t *testing.T) {
	var out strings.Builder
	p := loose(&out)
	for _, e := range []event{output(2, "b"), output(1, "a"), output(1, "x"), output(2, "x"), {seq: 4, kind: eventClosed},
		{seq: 3, kind: eventExited, exitCode: 7}, output(5, "x")} {
		p.arrived(e)
	}
	got, err := p.Wait(context.Background())
	if err != nil || out.String() != "ab" || got.ExitCode != 7 || got.LastSeq != 4 {
		t.Errorf("%q, %+v, %v", &out, got, err)
	}
}

func TestRefProcessFailsBeyondItsLimits(t *testing.T) {
	tests := []struct {
		name, want string
		events     func(yield func(event))
	}{
		{"256 ahead of a gap are fine", "", func(yield func(event)) {
			for seq := range uint64(reorderEvents) {
				yield(output(seq+2, "x"))
			}
		}},
		{"257 are not", "exceeds 256 entries", func(yield func(event)) {
			for seq := range uint64(reorderEvents + 1) {
				yield(output(seq+2, "x"))
			}
		}},
		{"more than 1 MiB ahead", "buffer exceeds 1048576 bytes", func(yield func(event)) {
			yield(output(2, strings.Repeat("x", reorderBytes)))
			yield(output(3, "x"))
		}},
		{"one event above 1 MiB", "event exceeds 1048576 bytes", func(yield func(event)) {
			yield(output(1, strings.Repeat("x", eventBytes+1)))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := loose(&strings.Builder{})
			test.events(p.arrived)
			switch {
			case test.want == "" && p.err != nil:
				t.Error(p.err)
			case test.want != "" && (p.err == nil || !strings.Contains(p.err.Error(), test.want)):
				t.Errorf("got %v, want %q", p.err, test.want)
			}
		})
	}
}

func TestRefProcessRecovers(t *testing.T) {
	tests := []struct{ name, answer, out, err string }{
		{"nothing new", `{"chunks":[],"nextSeq":2}`, "a", ""},
		{"chunks", `{"chunks":[{"seq":2,"chunk":"b"},{"seq":3,"chunk":"c"}],"nextSeq":4}`, "abc", ""},
		{"evicted", `{"chunks":[{"seq":3,"chunk":"c"}],"nextSeq":4}`, "a", "no longer retained while recovering through sequence 3"},
		{"exit in a hole", `{"chunks":[{"seq":3,"chunk":"c"}],"nextSeq":4,"exited":true,"exitCode":5}`, "ac", ""},
		{"exit at the end", `{"chunks":[{"seq":2,"chunk":"b"}],"nextSeq":4,"exited":true,"exitCode":5}`, "ab", ""},
		{"exit and close", `{"chunks":[{"seq":2,"chunk":"b"}],"nextSeq":5,"exited":true,"exitCode":5,"closed":true}`, "ab", ""},
		{"two holes", `{"chunks":[],"nextSeq":5,"exited":true,"exitCode":5}`, "a", "no longer retained"},
		{"exit without a code", `{"chunks":[],"nextSeq":3,"exited":true}`, "a", "exit code"},
		{"chunk where close is", `{"chunks":[{"seq":2,"chunk":"b"}],"nextSeq":3,"exited":true,"exitCode":0,"closed":true}`, "a", "conflicts"},
		{"chunk beyond the target", `{"chunks":[{"seq":2,"chunk":"b"}],"nextSeq":2}`, "a", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			p := loose(&out)
			p.arrived(output(1, "a"))
			err := p.recovered(answer(t, test.answer))
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if out.String() != test.out {
				t.Errorf("output %q, want %q", &out, test.out)
			}
		})
	}
}
