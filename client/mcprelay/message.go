package mcprelay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Methods of MCP that the pump recognizes.
const (
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
)

// codeClosed is the error code of requests whose server is gone. MCP libraries use it for a
// closed connection.
const codeClosed = -32000

// A message is one JSON-RPC message.
type message struct {
	raw    []byte
	id     string // as JSON, normalized by sameID; empty: none
	method string // empty: an answer
	params json.RawMessage
	result json.RawMessage
	valid  bool // it has the members of a request, a notification or an answer
}

func (m *message) isRequest() bool { return m.method != "" && m.id != "" }
func (m *message) isAnswer() bool  { return m.method == "" && m.id != "" }

// parse parses a line: one message or, in old versions of MCP, a batch of messages. ok is false
// if the line is not a JSON object, or an array of objects.
func parse(line []byte) (messages []message, ok bool) {
	var parts []json.RawMessage
	if !isBatch(line) {
		parts = append(parts, line)
	} else if json.Unmarshal(line, &parts) != nil {
		return nil, false
	}
	for _, part := range parts {
		var fields struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if json.Unmarshal(part, &fields) != nil && !json.Valid(part) || !bytes.HasPrefix(bytes.TrimSpace(part), []byte("{")) {
			return nil, false
		}
		m := message{raw: part, id: sameID(fields.ID), method: fields.Method, params: fields.Params, result: fields.Result}
		m.valid = m.method != "" || fields.Result != nil || fields.Error != nil
		messages = append(messages, m)
	}
	return messages, true
}

func isBatch(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("[")) }

// join is the reverse of parse.
func join(messages []message, batch bool) []byte {
	if !batch {
		return messages[0].raw
	}
	parts := make([][]byte, len(messages))
	for i := range messages {
		parts[i] = messages[i].raw
	}
	return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
}

// cancels is the id of the request that a message cancels; empty: it cancels none.
func (m *message) cancels() string {
	if m.method != methodCancelled {
		return ""
	}
	var params struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	json.Unmarshal(m.params, &params) // a malformed message cancels nothing
	return sameID(params.RequestID)
}

// sameID returns the normal form of an id, because programs may escape strings differently;
// empty: no id.
func sameID(id json.RawMessage) string {
	var text string
	switch {
	case string(id) == "null":
		return ""
	case !bytes.HasPrefix(id, []byte(`"`)) || json.Unmarshal(id, &text) != nil:
		return string(id)
	}
	return quote(text)
}

// failure answers a request with an error.
func failure(id, text string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, codeClosed, quote(text))
}

// A server that was started again numbers its requests from the start, while the client may
// still be working on requests of the last server. So requests of later servers get ids that
// contain the number of the server. Requests of the first server are not changed.

func idPrefix(generation int) string { return fmt.Sprintf("tether-%d-", generation) }

func marked(generation int, id string) string { return quote(idPrefix(generation) + id) }

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // every string has a form in JSON
	}
	return string(quoted)
}

// toClient marks the requests of a server that was started again.
func toClient(line []byte, messages []message, generation int) []byte {
	if generation == 0 {
		return line
	}
	for i := range messages {
		m := &messages[i]
		switch cancelled := m.cancels(); {
		case m.isRequest():
			m.raw = replace(m.raw, marked(generation, m.id), "id")
		case cancelled != "":
			m.raw = replace(m.raw, marked(generation, cancelled), "params", "requestId")
		}
	}
	return join(messages, isBatch(line))
}

// toServer removes the marks from the client's answers. Answers to an earlier server are
// dropped. It returns nil if nothing remains.
func toServer(line []byte, messages []message, generation int) []byte {
	if generation == 0 || len(messages) == 0 {
		return line
	}
	var kept []message
	for _, m := range messages {
		if m.isAnswer() {
			var id string
			json.Unmarshal([]byte(m.id), &id) // a number has no mark
			own, found := strings.CutPrefix(id, idPrefix(generation))
			if !found || !json.Valid([]byte(own)) {
				continue
			}
			m.raw = replace(m.raw, own, "id")
		}
		kept = append(kept, m)
	}
	if len(kept) == 0 {
		return nil
	}
	return join(kept, isBatch(line))
}

// replace replaces the value at a path in a JSON object. All other bytes stay the same. If there
// is no such value, nothing changes.
func replace(object []byte, value string, path ...string) []byte {
	from, to := 0, len(object)
	for _, name := range path {
		i, j := member(object[from:to], name)
		if i == j {
			return object
		}
		from, to = from+i, from+j
	}
	return slices.Concat(object[:from], []byte(value), object[to:])
}

// member returns the position of the value of a member of a JSON object. If there is no such
// member, both numbers are 0.
func member(object []byte, name string) (from, to int) {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return 0, 0
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return 0, 0
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return 0, 0
		}
		if key == name {
			to = int(d.InputOffset())
			from = to - len(value)
		}
	}
	return from, to
}
