package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/span"
	"github.com/tetherexec/tether/internal/tethertest"
)

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
)

// traced sends a request with a trace, and returns the answer.
func traced(t *testing.T, c *tethertest.Client, id, method string, params any, traceparent, tracestate string) tethertest.Message {
	t.Helper()
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "trace": map[string]string{"traceparent": traceparent, "tracestate": tracestate}})
	if err != nil {
		t.Fatal(err)
	}
	c.Send(string(text))
	return c.Await("the answer to "+id, func(m tethertest.Message) bool { return m.Answers(fmt.Sprintf("%q", id)) })
}

// printTrace are the parameters of a command that prints its trace.
func printTrace(id string, more map[string]any) map[string]any {
	return tethertest.Shell(id, `echo "$TRACEPARENT $TRACESTATE"`, more)
}

// A command gets the trace of its request, unless its client has set another one. A malformed trace is ignored.
func TestCommandGetsTheTrace(t *testing.T) {
	t.Setenv("TRACEPARENT", "server") // of another trace, as is the state
	t.Setenv("TRACESTATE", "server=1")
	inherit := map[string]any{"envPolicy": map[string]any{"inherit": "all", "ignoreDefaultExcludes": false, "exclude": []string{}, "set": map[string]string{}, "includeOnly": []string{}}}
	valid := "00-" + traceID + "-" + parentID + "-01"
	path := filepath.Join(t.TempDir(), "audit")
	book := new(logBook)
	s := tethertest.StartServer(t, server.Config{Audit: audit.Config{Target: path}, Log: book.log()})
	c := tethertest.Connect(t, s.URL)
	for i, tt := range []struct {
		parent, state string
		more          map[string]any
		want          string
	}{
		{valid, "a=1", nil, valid + " a=1"},
		{valid, "a=1", inherit, valid + " a=1"},
		{valid, "", inherit, valid + " "},
		{valid, "?", nil, valid + " "},
		{"nonsense", "a=1", nil, " "},
		{"nonsense", "a=1", inherit, "server server=1"},
		{valid, "a=1", map[string]any{"env": map[string]string{"TRACEPARENT": "own"}}, "own "},
	} {
		id := fmt.Sprint("p", i)
		if m := traced(t, c, id, "process/start", printTrace(id, tt.more), tt.parent, tt.state); m.Error != nil {
			t.Fatalf("%s", m.Raw)
		}
		if got := strings.TrimSuffix(c.Finish(id, 0).Text["stdout"], "\n"); got != tt.want {
			t.Errorf("with %q, %q and %v: %q, want %q", tt.parent, tt.state, tt.more, got, tt.want)
		}
	}
	s.Stop()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var withTrace []string
	for line := range strings.Lines(string(text)) {
		var e audit.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Trace != "" && e.Trace != traceID {
			t.Errorf("another trace: %s", line)
		}
		if e.Trace != "" {
			withTrace = append(withTrace, e.Event+" "+e.Process)
		}
	}
	var want []string
	for _, i := range []int{0, 1, 2, 3, 6} {
		want = append(want, fmt.Sprint("process.started p", i), fmt.Sprint("process.exited p", i))
	}
	slices.Sort(want)
	slices.Sort(withTrace) // a short command may have exited before its start is recorded
	if !slices.Equal(withTrace, want) {
		t.Errorf("the audit log has the trace in %v, want %v", withTrace, want)
	}
	if n := strings.Count(book.text.String(), `"trace":"`+traceID+`"`); n != len(want) {
		t.Errorf("the log has the trace in %d lines, want %d", n, len(want))
	}
}

// A spanList is a recorder of spans.
type spanList struct {
	mu   sync.Mutex
	list []*span.Span
}

func (l *spanList) Record(s *span.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, s)
}

func (l *spanList) Counts() (exported, dropped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.list)), 3
}

// named returns the spans with a name.
func (l *spanList) named(name string) (found []*span.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.list {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// The span of a start belongs to that of its client, and contains the span of the command's life, which is the parent of what the command records.
func TestSpans(t *testing.T) {
	spans := new(spanList)
	s := tethertest.StartServer(t, server.Config{Spans: span.Tracer{Recorder: spans}})
	c := tethertest.Connect(t, s.URL)
	valid := "00-" + traceID + "-" + parentID + "-01"
	traced(t, c, "p", "process/start", printTrace("p", nil), valid, "a=1")
	printed := c.Finish("p", 0).Text["stdout"]
	traced(t, c, "unsampled", "process/start", printTrace("u", nil), valid[:len(valid)-1]+"0", "")
	if got := c.Finish("u", 0).Text["stdout"]; got != valid[:len(valid)-1]+"0 \n" {
		t.Errorf("the command of a trace that is not sampled gets %q", got)
	}
	traced(t, c, "failing", "fs/readFile", map[string]any{"path": "file:///nonexistent"}, valid, "")
	c.Call("fs/readFile", map[string]any{"path": "file:///nonexistent"})
	c.Call("process/read", map[string]any{"processId": "p"}) // without a trace it begins none
	s.Stop()

	starts, lives, reads := spans.named("process/start"), spans.named("command"), spans.named("fs/readFile")
	if len(starts) != 1 || len(lives) != 1 || len(reads) != 2 || len(spans.named("process/read")) != 0 {
		t.Fatalf("%d starts, %d commands, %d reads of %d spans", len(starts), len(lives), len(reads), len(spans.list))
	}
	start, life := starts[0], lives[0]
	if start.Trace != traceID || start.Parent != parentID || start.State != "a=1" || !start.Served || start.Failure != "" || start.End.Before(start.Begin) {
		t.Errorf("the start is %+v", start)
	}
	if life.Trace != traceID || life.Parent != start.ID || life.Served || life.End.Before(start.Begin) {
		t.Errorf("the command is %+v", life)
	}
	if want := "00-" + traceID + "-" + life.ID + "-01 a=1\n"; printed != want {
		t.Errorf("the command was told %q, want %q", printed, want)
	}
	if reads[0].Trace != traceID || reads[0].Failure == "" || reads[1].Trace == traceID || reads[1].Parent != "" {
		t.Errorf("the reads are %+v and %+v", reads[0], reads[1])
	}
	for _, f := range append(slices.Clone(start.Facts), life.Facts...) {
		if strings.Contains(f.Text, "echo") || strings.Contains(f.Text, "TRACEPARENT") {
			t.Errorf("a span has an argument of the command: %+v", f)
		}
	}
}

// The time in which the sandbox is made is a part of the start.
func TestSpanOfASandbox(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	spans := new(spanList)
	s := tethertest.StartServer(t, server.Config{Spans: span.Tracer{Recorder: spans}})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Shell("p", "true", map[string]any{"sandbox": json.RawMessage(`{"mode":"require","policy":{"type":"read-only"},"sandboxPolicyCwd":"/"}`)}))
	c.Finish("p", 0)
	s.Stop()
	starts, sandboxes := spans.named("process/start"), spans.named("sandbox")
	if len(starts) != 1 || len(sandboxes) != 1 {
		t.Fatalf("%d starts, %d sandboxes", len(starts), len(sandboxes))
	}
	if in, of := sandboxes[0], starts[0]; in.Parent != of.ID || in.Trace != of.Trace || in.Begin.Before(of.Begin) || in.End.After(of.End) || !in.End.After(in.Begin) {
		t.Errorf("the sandbox is %+v of %+v", in, of)
	}
}
