package mcprelay

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSplitter(t *testing.T) {
	for _, try := range []struct {
		pieces []string
		want   string // lines in brackets; ! for an error
	}{
		{[]string{"one\ntwo\r\n\nthr", "ee", "\n"}, "[one][two][][three]"},
		{[]string{"a", "\r", "\n", "last"}, "[a][last]"},
		{[]string{"last\r"}, "[last]"},
		{[]string{"12345678\n", "12345678", "\n"}, "[12345678][12345678]"},
		{[]string{"ok\n123456789\n"}, "[ok]!"},
		{[]string{"12345678", "9"}, "!"},
		{[]string{"12345", "6789\n"}, "!"},
	} {
		s := splitter{source: "test", limit: 8}
		var got strings.Builder
		line := func(b []byte) error { fmt.Fprintf(&got, "[%s]", b); return nil }
		var err error
		for _, piece := range try.pieces {
			if err = s.feed([]byte(piece), line); err != nil {
				got.WriteString("!")
				break
			}
		}
		if err == nil {
			s.end(line)
		}
		if got.String() != try.want {
			t.Errorf("%q: %s, want %s", try.pieces, got.String(), try.want)
		}
	}
	stop := errors.New("stop")
	if err := new(splitter{limit: 8}).feed([]byte("x\ny\n"), func([]byte) error { return stop }); err != stop {
		t.Error(err)
	}
}

// The lines do not depend on how the stream is cut into pieces, and later pieces do not change
// them.
func TestSplitterPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.StringMatching(`[a-c]{0,9}`)).Draw(t, "lines")
		stream := []byte(strings.Join(append(lines, ""), "\n"))
		s := splitter{limit: 9}
		var kept [][]byte
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "n")
			if err := s.feed(stream[:n:n], func(line []byte) error { kept = append(kept, line); return nil }); err != nil {
				t.Fatal(err)
			}
			stream = stream[n:]
		}
		var got []string
		for _, line := range kept {
			got = append(got, string(line))
		}
		if !slices.Equal(got, lines) && len(got)+len(lines) > 0 {
			t.Fatalf("%q, want %q", got, lines)
		}
	})
}

func TestIDsOfLaterServers(t *testing.T) {
	for _, try := range []struct{ from, marked string }{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"tether-2-1","method":"ping"}`},
		{`{"method" : "ping", "id" : "a\"b" , "params":{"id":1}}`, `{"method" : "ping", "id" : "tether-2-\"a\\\"b\"" , "params":{"id":1}}`},
		{`{"id":1,"result":{}}`, `{"id":1,"result":{}}`},
		{`{"method":"notifications/progress","params":{}}`, `{"method":"notifications/progress","params":{}}`},
		{`{"method":"notifications/cancelled","params":{"reason":"r","requestId":7}}`, `{"method":"notifications/cancelled","params":{"reason":"r","requestId":"tether-2-7"}}`},
		{`[{"id":1,"method":"ping"},{"id":2,"result":{}}]`, `[{"id":"tether-2-1","method":"ping"},{"id":2,"result":{}}]`},
	} {
		messages, ok := parse([]byte(try.from))
		if !ok {
			t.Fatal(try.from)
		}
		if got := toClient([]byte(try.from), messages, 0); string(got) != try.from {
			t.Errorf("of the first server: %s", got)
		}
		if got := toClient([]byte(try.from), messages, 2); string(got) != try.marked {
			t.Errorf("%s became %s, want %s", try.from, got, try.marked)
		}
	}
	for _, try := range []struct{ from, want string }{
		{`{"id":"tether-2-1","result":{"id":"tether-2-9"}}`, `{"id":1,"result":{"id":"tether-2-9"}}`},
		{`{"id":"tether-2-\"a\\\"b\"","result":{}}`, `{"id":"a\"b","result":{}}`},
		{`{"id":"tether-1-1","result":{}}`, ""}, // of an earlier server
		{`{"id":1,"result":{}}`, ""},
		{`{"id":"tether-2-","result":{}}`, ""},
		{`{"id":1,"method":"tools/list"}`, `{"id":1,"method":"tools/list"}`},
		{`[{"id":1,"result":{}},{"id":"tether-2-3","error":{}}]`, `[{"id":3,"error":{}}]`},
		{`not json`, `not json`},
	} {
		messages, _ := parse([]byte(try.from))
		if got := toServer([]byte(try.from), messages, 2); string(got) != try.want {
			t.Errorf("%s became %s, want %s", try.from, got, try.want)
		}
		messages, _ = parse([]byte(try.from))
		if got := toServer([]byte(try.from), messages, 0); string(got) != try.from {
			t.Errorf("to the first server: %s", got)
		}
	}
}

func TestParseRefusesMalformedLines(t *testing.T) {
	for _, line := range []string{"", "x", "42", `"text"`, "null", "{", "[1]", "[", "{} x", `[{},2]`} {
		if _, ok := parse([]byte(line)); ok {
			t.Errorf("%q was accepted", line)
		}
	}
}

// FuzzReplace: the new value is where the old one was, and nothing else has changed.
func FuzzReplace(f *testing.F) {
	f.Add(`{"id":1,"method":"x"}`)
	f.Add(` { "a":[{"id":3}], "id" : "1" } `)
	f.Add(`{"id":1.5e3}`)
	f.Fuzz(func(t *testing.T, text string) {
		var before map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &before) != nil || before["id"] == nil || strings.Contains(text, `\`) {
			return
		}
		var after map[string]json.RawMessage
		if err := json.Unmarshal(replace([]byte(text), `"new"`, "id"), &after); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if string(after["id"]) != `"new"` {
			t.Errorf("%q: the id is %s", text, after["id"])
		}
		for name, value := range before {
			if name != "id" && string(after[name]) != string(value) {
				t.Errorf("%q: %s is %s", text, name, after[name])
			}
		}
	})
}

func TestClientState(t *testing.T) {
	var l clientState
	say := func(line string) {
		messages, _ := parse([]byte(line))
		if !l.hasRoom(messages) {
			t.Fatalf("refused: %s", line)
		}
		l.sent(&messages[0])
	}
	hear := func(line string) {
		messages, _ := parse([]byte(line))
		l.received(&messages[0])
	}
	say(`{"id":0,"method":"initialize"}`)
	if l.answered != nil {
		t.Error("an initialize without an answer is repeated")
	}
	hear(`{"id":0,"result":{"protocolVersion":"v"}}`)
	if l.answered == nil || l.answered.version != "v" {
		t.Errorf("%+v", l.answered)
	}
	say(`{"method":"notifications/initialized"}`)
	say(`{"id":1,"method":"a"}`)
	say(`{"id":"1","method":"b"}`)
	say(`{"id":2,"method":"c"}`)
	say(`{"method":"notifications/cancelled","params":{"requestId":2}}`)
	hear(`{"id":1,"error":{}}`)
	hear(`{"id":9,"method":"ping"}`)
	if open := l.take(); len(open) != 1 || l.initialized == nil || l.answered == nil {
		t.Errorf("%v, %+v", open, l)
	}
	for i := range maxInFlight - 1 {
		say(fmt.Sprintf(`{"id":%d,"method":"a"}`, i))
	}
	one, two := message{id: "-1", method: "a"}, message{id: "-2", method: "a"}
	if !l.hasRoom([]message{one}) || l.hasRoom([]message{one, two}) || len(l.open) != maxInFlight-1 {
		t.Errorf("one more: %t, two more: %t, %d wait", l.hasRoom([]message{one}), l.hasRoom([]message{one, two}), len(l.open))
	}
	l.sent(&one)
	if l.hasRoom([]message{two}) || !l.hasRoom([]message{{method: "notice"}}) {
		t.Error("there is no limit, or it also holds for messages that need no answer")
	}
}
