//go:build unix

package server_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// twoSessions returns two clients, each with a session of its own, and the public
// id of the first one's.
func twoSessions(t *testing.T, cfg server.Config) (owner, other *tethertest.Client, public string) {
	t.Helper()
	s := tethertest.StartServer(t, cfg)
	owner = tethertest.Dial(t, s.URL)
	public = owner.Handshake("").Tether.PublicID
	return owner, tethertest.Connect(t, s.URL), public
}

func chunk(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestFeaturesAreAnnounced(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	var hello wire.InitializeResult
	m := c.Call("initialize", map[string]any{"clientName": "test"})
	if err := wire.Decode(m.Result, &hello); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"endSession", "label", "once", "remoteControl"} {
		if !slices.Contains(hello.Tether.Features, want) {
			t.Errorf("%s is not announced: %v", want, hello.Tether.Features)
		}
	}
}

// A client that knows the public id of a session can do to its processes all that
// their own client can do.
func TestProcessOfAnotherSession(t *testing.T) {
	owner, other, public := twoSessions(t, server.Config{})
	owner.Start(tethertest.Shell("p", `read a; echo "got $a"; stty size; read b; echo "end $b"; exec sleep 1000`,
		map[string]any{"tty": true}))
	at := func(more map[string]any) map[string]any {
		params := map[string]any{"sessionId": public, "processId": "p"}
		for name, value := range more {
			params[name] = value
		}
		return params
	}
	other.Must("tether/process/resize", at(map[string]any{"rows": 11, "cols": 22}), nil)
	var written wire.WriteResult
	for range 3 {
		other.Must("tether/process/write", at(map[string]any{"chunk": chunk("one\n"), "writeId": "other-1"}), &written)
		if written.Status != wire.WriteAccepted {
			t.Errorf("status %q", written.Status)
		}
	}
	other.Must("tether/process/closeStdin", at(nil), nil) // writes the end-of-file character
	text := ""
	for !strings.Contains(text, "end ") {
		text += string(owner.AwaitEvent("p").Chunk)
	}
	if !strings.Contains(text, "got one\r\n11 22\r\n") || strings.Count(text, "got") != 1 {
		t.Errorf("the process saw %q", text)
	}
	var ended wire.TerminateResult
	other.Must("tether/process/terminate", at(nil), &ended)
	if !ended.Running {
		t.Error("terminate reports that a running process does not run")
	}
	for owner.AwaitEvent("p").Method != "process/closed" {
	}
	other.Must("tether/process/terminate", at(nil), &ended)
	if ended.Running {
		t.Error("terminate reports that a closed process runs")
	}
}

// A write id belongs to the process, whichever client uses it.
func TestWriteIDsAreTheProcessesOwn(t *testing.T) {
	owner, other, public := twoSessions(t, server.Config{})
	owner.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
	owner.Write("p", "w", "one")
	write := map[string]any{"sessionId": public, "processId": "p", "chunk": chunk("one"), "writeId": "w"}
	other.Must("tether/process/write", write, nil) // the same again
	write["chunk"] = chunk("two")
	if m := other.Call("tether/process/write", write); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
		t.Errorf("answered %s", m.Raw)
	}
	other.Must("tether/process/closeStdin", map[string]any{"sessionId": public, "processId": "p"}, nil)
	if out := owner.Finish("p", 0); out.Text["stdout"] != "one" {
		t.Errorf("cat printed %q", out.Text["stdout"])
	}
}

func TestMethodWithoutSessionIDMeansOwnSession(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		c.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
		c.Must("tether/process/write", map[string]any{"processId": "p", "chunk": chunk("x"), "writeId": "1"}, nil)
		if e := c.AwaitEvent("p"); string(e.Chunk) != "x" {
			t.Errorf("cat printed %q", e.Chunk)
		}
		c.Must("tether/process/terminate", map[string]any{"processId": "p"}, nil)
		c.Finish("p", 1)
	})
}

func TestUnknownSessionID(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	for method, more := range map[string]string{
		"process/signal": `,"signal":"HUP"`, "process/resize": `,"rows":1,"cols":1`, "process/closeStdin": "",
		"process/write": `,"chunk":"","writeId":"w"`, "process/terminate": "", "session/end": "",
	} {
		id := c.Ask("tether/"+method, map[string]any{})
		c.Answer(id) // keeps the ids in step
		if method == "session/end" {
			c = tethertest.Connect(t, s.URL) // that session was its own
		}
		c.Send(fmt.Sprintf(`{"id":%d,"method":"tether/%s","params":{"sessionId":"missing","processId":"p"%s}}`, id+1000, method, more))
		if m := c.Answer(id + 1000); m.Error == nil || m.Error.Code != wire.CodeInvalidRequest || m.Error.Message != "unknown session id missing" {
			t.Errorf("%s: %s", method, m.Raw)
		}
	}
}

// A signal with an id is sent once, also when the repeated request arrives on
// another connection.
func TestSignalsOnce(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	// The shell prints each signal before it looks for the file.
	over := filepath.Join(t.TempDir(), "over")
	c.Start(tethertest.Shell("p", `exec 2>/dev/null; n=0; trap 'n=$((n+1)); echo int $n' INT; trap 'echo hup' HUP; echo ready; until [ -e `+over+` ]; do sleep 0.02; done; echo at end; sleep 1000`, nil))
	c.AwaitEvent("p")
	interrupt := map[string]any{"processId": "p", "signal": "interrupt", "onceId": "i-1"}
	hup := map[string]any{"processId": "p", "signal": "HUP", "onceId": "h-1"}
	for range 3 {
		c.Must("process/signal", interrupt, nil)
	}
	c.Close()
	c = tethertest.Dial(t, s.URL)
	c.Handshake(hello.SessionID)
	c.Must("process/signal", interrupt, nil)
	text, last := "", uint64(0)
	read := func(until string) {
		t.Helper()
		for !strings.Contains(text, until) {
			for _, e := range c.Read("p", last, map[string]any{"waitMs": 10_000}).Chunks {
				text, last = text+string(e.Chunk), e.Seq
			}
		}
	}
	read("int 1\n")
	other := tethertest.Connect(t, s.URL)
	for range 2 {
		c.Must("tether/process/signal", hup, nil)
		other.Must("tether/process/signal", map[string]any{"sessionId": hello.Tether.PublicID, "processId": "p", "signal": "HUP", "onceId": "h-1"}, nil)
	}
	read("hup\n")
	c.Must("process/signal", map[string]any{"processId": "p", "signal": "interrupt", "onceId": "i-2"}, nil)
	read("int 2\n")
	if err := os.WriteFile(over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	read("at end\n")
	if want := "ready\nint 1\nhup\nint 2\nat end\n"; text != want {
		t.Errorf("the process printed %q, want %q", text, want)
	}
	hup["signal"] = "TERM"
	if m := c.Call("tether/process/signal", hup); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
		t.Errorf("an id for another signal: %s", m.Raw)
	}
	for _, id := range []string{"", strings.Repeat("x", wire.MaxOnceID+1)} {
		for method, params := range map[string]map[string]any{
			"process/signal":            {"processId": "p", "signal": "interrupt", "onceId": id},
			"tether/process/signal":     {"processId": "p", "signal": "TERM", "onceId": id},
			"tether/process/closeStdin": {"processId": "p", "onceId": id},
		} {
			if m := c.Call(method, params); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
				t.Errorf("%s with an id of %d bytes: %s", method, len(id), m.Raw)
			}
		}
	}
	c.Terminate("p")
}

// On a terminal, closing the input writes an end-of-file character, and more input
// may follow. So a repeated request must not write a second one.
func TestCloseStdinOnce(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		c.Start(tethertest.Shell("p", `stty -echo; echo ready; cat; echo first; read x; echo "x=$x"`, map[string]any{"tty": true}))
		text := ""
		read := func(until string) {
			t.Helper()
			for !strings.Contains(text, until) {
				text += string(c.AwaitEvent("p").Chunk)
			}
		}
		read("ready")
		for range 3 {
			c.Must("tether/process/closeStdin", map[string]any{"processId": "p", "onceId": "e-1"}, nil)
		}
		read("first")
		c.Write("p", "1", "more\n")
		read("x=more")
	})
}

func TestLabel(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	hello := func(label any) (*tethertest.Client, tethertest.Message) {
		c := tethertest.Dial(t, s.URL)
		return c, c.Call("initialize", map[string]any{"clientName": "test", "tether": map[string]any{"label": label}})
	}
	c, m := hello("build ü 1")
	if m.Error != nil {
		t.Fatal(m.Error)
	}
	c.Notify("initialized", nil)
	tethertest.Connect(t, s.URL)
	m = c.Call("tether/session/list", nil)
	var list wire.SessionListResult
	if err := wire.Decode(m.Result, &list); err != nil || len(list.Sessions) != 2 {
		t.Fatalf("%s: %v", m.Raw, err)
	}
	if list.Sessions[0].Label != "build ü 1" || list.Sessions[1].Label != "" || strings.Count(string(m.Raw), "label") != 1 {
		t.Errorf("listed %s", m.Raw)
	}
	for _, label := range []string{strings.Repeat("x", wire.MaxLabel+1), "a\nb", "a\x1b[31m", "a\u202eb"} {
		if _, m := hello(label); m.Error == nil || m.Error.Code != wire.CodeInvalidParams {
			t.Errorf("%q: %s", label, m.Raw)
		}
	}
	if _, m := hello(strings.Repeat("x", wire.MaxLabel)); m.Error != nil {
		t.Error(m.Error)
	}
}

// When the request is answered, nothing is left of the session. Then the connection
// of its client ends.
func TestEndOfOwnSession(t *testing.T) {
	for _, byName := range []bool{false, true} {
		s := tethertest.StartServer(t, server.Config{})
		c := tethertest.Dial(t, s.URL)
		hello := c.Handshake("")
		c.Start(tethertest.Shell("p", `trap "" TERM HUP; while :; do sleep 1000; done`, nil))
		p, err := c.Listed("p")
		if err != nil {
			t.Fatal(err)
		}
		params := map[string]any{"sessionId": nil}
		if byName {
			params["sessionId"] = hello.Tether.PublicID
		}
		poll := c.Ask("process/read", map[string]any{"processId": "p", "waitMs": 60_000})
		if m := c.Call("tether/session/end", params); string(m.Result) != `{}` {
			t.Fatalf("answered %s", m.Raw)
		}
		if err := syscall.Kill(p.PID, 0); err == nil {
			t.Error("the process is still there")
		}
		c.Answer(poll)
		if err := c.Ended(); !strings.Contains(err.Error(), "session has ended") {
			t.Errorf("the connection ended with %v", err)
		}
		again := tethertest.Dial(t, s.URL)
		if m := again.Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID}); m.Error == nil || m.Error.Code != wire.CodeInvalidRequest {
			t.Errorf("a resume was answered with %s", m.Raw)
		}
	}
}

func TestEndOfAnotherSession(t *testing.T) {
	for _, detached := range []bool{false, true} {
		owner, other, public := twoSessions(t, server.Config{})
		owner.Start(tethertest.Command("p", []string{"sleep", "1000"}, nil))
		p, err := owner.Listed("p")
		if err != nil {
			t.Fatal(err)
		}
		if detached {
			owner.Close()
		}
		other.Must("tether/session/end", map[string]any{"sessionId": public}, nil)
		if err := syscall.Kill(p.PID, 0); err == nil {
			t.Error("the process is still there")
		}
		if !detached {
			if err := owner.Ended(); !strings.Contains(err.Error(), "session has ended") {
				t.Errorf("the connection ended with %v", err)
			}
		}
		var list wire.SessionListResult
		other.Must("tether/session/list", nil, &list)
		if len(list.Sessions) != 1 {
			t.Errorf("left are %+v", list.Sessions)
		}
		if m := other.Call("tether/session/end", map[string]any{"sessionId": public}); m.Error == nil || m.Error.Code != wire.CodeInvalidRequest {
			t.Errorf("a second end was answered with %s", m.Raw)
		}
	}
}
