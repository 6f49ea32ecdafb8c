//go:build interop

package interop_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A model stands for the model service: it answers each request of the client by its script, and records the results of the tools.
type model struct {
	*httptest.Server
	script func(turn int, outputs []string) []modelItem

	mu       sync.Mutex
	turns    int
	outputs  []string // of function calls, in order
	requests []string // paths that were asked for
}

// A modelItem is one output item of an answer.
type modelItem map[string]any

// execCommand calls the client's tool of that name.
func execCommand(turn int, args map[string]any) modelItem {
	return functionCall("exec_command", turn, args)
}

// writeStdin sends characters to a running session, or polls it with none.
func writeStdin(turn, session int, chars string, yieldMs int) modelItem {
	return functionCall("write_stdin", turn, map[string]any{"session_id": session, "chars": chars, "yield_time_ms": yieldMs})
}

func functionCall(name string, turn int, args map[string]any) modelItem {
	return modelItem{"type": "function_call", "name": name, "call_id": fmt.Sprintf("call%d", turn), "arguments": canonical(args)}
}

// say ends the turn.
func say(text string) modelItem {
	return modelItem{"type": "message", "role": "assistant",
		"content": []map[string]any{{"type": "output_text", "text": text}}}
}

// newModel serves script on loopback until the test ends. The script gets the
// number of the request (from 1) and all tool outputs so far.
func newModel(t *testing.T, script func(turn int, outputs []string) modelItem) *model {
	return serveModel(t, func(turn int, outputs []string) []modelItem { return []modelItem{script(turn, outputs)} })
}

// newBatchModel is a model that makes several calls in its first answer and then ends
// the turn.
func newBatchModel(t *testing.T, calls ...modelItem) *model {
	for i := range calls {
		calls[i]["call_id"] = fmt.Sprintf("call%d", i+1)
	}
	return serveModel(t, func(turn int, _ []string) []modelItem {
		if turn > 1 {
			return []modelItem{say("done")}
		}
		return calls
	})
}

func serveModel(t *testing.T, script func(turn int, outputs []string) []modelItem) *model {
	m := &model{script: script}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, r.Method+" "+r.URL.Path)
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses") {
		http.NotFound(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m.outputs = toolOutputs(body)
	m.turns++
	id := fmt.Sprintf("resp%d", m.turns)
	events := []map[string]any{{"type": "response.created", "response": map[string]any{"id": id}}}
	for _, item := range m.script(m.turns, m.outputs) {
		events = append(events, map[string]any{"type": "response.output_item.done", "item": item})
	}
	events = append(events, map[string]any{"type": "response.completed", "response": map[string]any{"id": id, "usage": map[string]any{"input_tokens": 1,
		"input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2}}})
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range events {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], canonical(event))
	}
}

// toolOutputs lists the texts of all function_call_output items of a request.
func toolOutputs(body []byte) []string {
	var request struct {
		Input []struct {
			Type   string          `json:"type"`
			Output json.RawMessage `json:"output"`
		} `json:"input"`
	}
	json.Unmarshal(body, &request)
	var texts []string
	for _, item := range request.Input {
		if item.Type != "function_call_output" {
			continue
		}
		var text string
		if json.Unmarshal(item.Output, &text) != nil {
			text = string(item.Output)
		}
		texts = append(texts, text)
	}
	return texts
}

var sessionPattern = regexp.MustCompile(`Process running with session ID (\d+)`)

// runningSession returns the session that a tool output reports as running.
func runningSession(outputs []string) (int, bool) {
	if len(outputs) == 0 {
		return 0, false
	}
	m := sessionPattern.FindStringSubmatch(outputs[len(outputs)-1])
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}
