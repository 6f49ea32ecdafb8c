package tethertest

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// Command returns the parameters that start argv with an empty environment but
// for PATH; more changes or adds members.
func Command(id string, argv []string, more map[string]any) map[string]any {
	params := map[string]any{
		"processId": id, "argv": argv, "cwd": "/", "tty": false,
		"env": map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"},
	}
	for name, value := range more {
		params[name] = value
	}
	return params
}

// Shell is Command for a script.
func Shell(id, script string, more map[string]any) map[string]any {
	return Command(id, []string{"/bin/sh", "-c", script}, more)
}

// Start starts a process.
func (c *Client) Start(params map[string]any) {
	c.t.Helper()
	c.Must("process/start", params, nil)
}

// An Event is a notification about a process.
type Event struct {
	Method    string `json:"-"`
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	Stream    string `json:"stream"`
	Chunk     []byte `json:"chunk"`
	ExitCode  int    `json:"exitCode"`
}

// AwaitEvent takes the next event of a process.
func (c *Client) AwaitEvent(id string) Event {
	c.t.Helper()
	var e Event
	c.Await("an event of "+id, func(m Message) bool { return c.IsEvent(m, &e) && e.ProcessID == id })
	return e
}

// IsEvent reports whether a message is about a process, and what it says.
func (c *Client) IsEvent(m Message, e *Event) bool {
	c.t.Helper()
	if !strings.HasPrefix(m.Method, "process/") {
		return false
	}
	*e = Event{Method: m.Method}
	if err := decodeEvent(m.Params, e); err != nil {
		c.t.Errorf("%s: %v", m.Raw, err)
	}
	return true
}

// An Output is the whole output of a process and its exit.
type Output struct {
	Text     map[string]string // by stream
	ExitCode int
	Last     uint64 // the number of its close
}

// Finish takes the events of a process behind number after until it has closed.
// Numbers must come in order, without a gap.
func (c *Client) Finish(id string, after uint64) Output {
	c.t.Helper()
	text, out := map[string]*strings.Builder{}, Output{Text: map[string]string{}, ExitCode: -1000}
	for {
		e := c.AwaitEvent(id)
		if e.Seq != after+1 {
			c.t.Fatalf("process %s: event %d follows %d", id, e.Seq, after)
		}
		after = e.Seq
		switch e.Method {
		case "process/output":
			if text[e.Stream] == nil {
				text[e.Stream] = new(strings.Builder)
			}
			text[e.Stream].Write(e.Chunk)
		case "process/exited":
			out.ExitCode = e.ExitCode
		case "process/closed":
			out.Last = e.Seq
			for stream, b := range text {
				out.Text[stream] = b.String()
			}
			return out
		}
	}
}

// A ReadAnswer is the result of process/read.
type ReadAnswer struct {
	Chunks []struct {
		Seq    uint64 `json:"seq"`
		Stream string `json:"stream"`
		Chunk  []byte `json:"chunk"`
	} `json:"chunks"`
	NextSeq  uint64 `json:"nextSeq"`
	Exited   bool   `json:"exited"`
	ExitCode *int   `json:"exitCode"`
	Closed   bool   `json:"closed"`
}

// Bytes returns the number of bytes of output in the answer.
func (a ReadAnswer) Bytes() (n int) {
	for _, chunk := range a.Chunks {
		n += len(chunk.Chunk)
	}
	return n
}

// Read reads the output of a process; more adds to afterSeq.
func (c *Client) Read(id string, after uint64, more map[string]any) ReadAnswer {
	c.t.Helper()
	params := map[string]any{"processId": id, "afterSeq": after}
	for name, value := range more {
		params[name] = value
	}
	var answer ReadAnswer
	c.Must("process/read", params, &answer)
	return answer
}

// Write writes to a process and returns the status.
func (c *Client) Write(id, writeID, text string) string {
	c.t.Helper()
	var answer struct {
		Status string `json:"status"`
	}
	c.Must("process/write", map[string]any{"processId": id, "writeId": writeID,
		"chunk": base64.StdEncoding.EncodeToString([]byte(text))}, &answer)
	return answer.Status
}

// Terminate terminates a process and returns whether it ran.
func (c *Client) Terminate(id string) bool {
	c.t.Helper()
	var answer struct {
		Running bool `json:"running"`
	}
	c.Must("process/terminate", map[string]any{"processId": id}, &answer)
	return answer.Running
}

// A Listed is a process in a list.
type Listed struct {
	SessionID   string `json:"sessionId"`
	ProcessID   string `json:"processId"`
	PID         int    `json:"pid"`
	State       string `json:"state"`
	NextSeq     uint64 `json:"nextSeq"`
	SentSeq     uint64 `json:"sentSeq"`
	HeldBytes   int64  `json:"heldBytes"`
	UnsentBytes int64  `json:"unsentBytes"`
	Blocked     bool   `json:"blocked"`
	Observers   int    `json:"observers"`
}

// Listed finds a process among those of all sessions.
func (c *Client) Listed(id string) (Listed, error) {
	c.t.Helper()
	var answer struct {
		Processes []Listed `json:"processes"`
	}
	c.Must("tether/process/list", map[string]any{}, &answer)
	for _, p := range answer.Processes {
		if p.ProcessID == id {
			return p, nil
		}
	}
	return Listed{}, fmt.Errorf("process %s is not listed", id)
}
