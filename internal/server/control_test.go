//go:build unix

package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A person is a client with a label, and a session of its own.
type person struct {
	*tethertest.Client
	t *testing.T
}

func arrive(t *testing.T, url, label string) *person {
	t.Helper()
	c := tethertest.Dial(t, url)
	c.HandshakeWith(map[string]any{"clientName": "tether console", "tether": map[string]any{"label": label}})
	return &person{c, t}
}

// sees waits for the next note about control. want is "NAME", "NAME mine" or "nobody".
func (p *person) sees(want string) {
	p.t.Helper()
	m := p.Await("a note about control", func(m tethertest.Message) bool { return m.Method == wire.NoteObservedControl })
	var note wire.ObservedControl
	if err := json.Unmarshal(m.Params, &note); err != nil {
		p.t.Fatal(err)
	}
	got := "nobody"
	if note.Holder != nil {
		got = *note.Holder
	}
	if note.Mine {
		got += " mine"
	}
	if got != want || note.ObserveID == 0 {
		p.t.Errorf("%s, want %s", m.Raw, want)
	}
}

func controlledBy(c *tethertest.Client) string {
	var list wire.ListResult
	c.Must(wire.MethodProcessList, map[string]any{}, &list)
	if by := list.Processes[0].ControlledBy; by != nil {
		return *by
	}
	return "nobody"
}

// Observers of a process see which connection types. The last one that takes control has it, until it gives it back or ends. The others can type all the same.
func TestControl(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	owner := tethertest.Dial(t, s.URL)
	process := map[string]any{"sessionId": owner.Handshake("").Tether.PublicID, "processId": "p"}
	owner.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
	anna, ben := arrive(t, s.URL, "Anna"), arrive(t, s.URL, "Ben")
	anna.Must(wire.MethodProcessObserve, process, nil)
	if by := controlledBy(owner); by != "nobody" {
		t.Errorf("at first %s has control", by)
	}

	anna.Must(wire.MethodProcessTakeControl, process, nil)
	anna.sees("Anna mine")
	ben.Must(wire.MethodProcessObserve, process, nil)
	ben.sees("Anna")
	if by := controlledBy(owner); by != "Anna" {
		t.Errorf("%s has control", by)
	}
	ben.Must(wire.MethodProcessGiveControl, process, nil) // it has none
	ben.Must(wire.MethodProcessTakeControl, process, nil)
	anna.sees("Ben")
	ben.sees("Ben mine")
	anna.Must(wire.MethodProcessTakeControl, process, nil)
	anna.Must(wire.MethodProcessTakeControl, process, nil) // once more has no effect
	ben.sees("Anna")
	anna.sees("Anna mine")
	owner.Write("p", "w", "typed") // the client of the session is never locked out
	if e := owner.AwaitEvent("p"); string(e.Chunk) != "typed" {
		t.Errorf("cat printed %q", e.Chunk)
	}
	anna.Must(wire.MethodProcessGiveControl, process, nil)
	anna.sees("nobody")
	ben.sees("nobody")

	ben.Must(wire.MethodProcessTakeControl, process, nil)
	anna.sees("Ben")
	ben.Close()
	anna.sees("nobody")
	if by := controlledBy(owner); by != "nobody" {
		t.Errorf("after the end of its connection, %s has control", by)
	}
	owner.Must(wire.MethodProcessTakeControl, map[string]any{"processId": "p"}, nil) // its own
	anna.sees("test")

	owner.Terminate("p")
	owner.Finish("p", 1)
	anna.Await("the close", func(m tethertest.Message) bool { return m.Method == wire.NoteObservedClosed })
	if m := anna.Call(wire.MethodProcessTakeControl, process); m.Error == nil || m.Error.Code != wire.CodeInvalidRequest {
		t.Errorf("control of a closed process: %s", m.Raw)
	}
	if by := controlledBy(anna.Client); by != "nobody" {
		t.Errorf("%s has control of a closed process", by)
	}
	owner.Must(wire.MethodProcessGiveControl, map[string]any{"processId": "p"}, nil)
	anna.Must("environment/status", nil, nil)
	if m, err := anna.AwaitFor(0, func(m tethertest.Message) bool { return m.Method == wire.NoteObservedControl }); err == nil {
		t.Errorf("after the close: %s", m.Raw)
	}
}

// Control of a process survives neither the resume of the session on another connection, nor a process of which there is none.
func TestControlBelongsToTheConnection(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Command("p", []string{"sleep", "1000"}, nil))
	c.Must(wire.MethodProcessTakeControl, map[string]any{"processId": "p"}, nil)
	c.Close()
	again := tethertest.Dial(t, s.URL)
	again.Handshake(hello.SessionID)
	tethertest.Eventually(t, func() error {
		if by := controlledBy(again); by != "nobody" {
			return errors.New(by + " has control")
		}
		return nil
	})
	for _, method := range []string{wire.MethodProcessTakeControl, wire.MethodProcessGiveControl} {
		if m := again.Call(method, map[string]any{"processId": "q"}); m.Error == nil || m.Error.Message != "unknown process id q" {
			t.Errorf("%s: %s", method, m.Raw)
		}
	}
}

// Names that clients have chosen are cut to a line of text.
func TestNameOfController(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	long := "a\x1b[31mb\n\"" + fmt.Sprintf("%0200d", 0)
	c.HandshakeWith(map[string]any{"clientName": long})
	c.Start(tethertest.Command("p", []string{"sleep", "1000"}, nil))
	c.Must(wire.MethodProcessTakeControl, map[string]any{"processId": "p"}, nil)
	if by := controlledBy(c); by != `a[31mb"`+fmt.Sprintf("%0121d", 0) {
		t.Errorf("%q has control", by)
	}
	p := &person{c, t}
	p.Must(wire.MethodProcessObserve, map[string]any{"sessionId": p.sessionOf("p"), "processId": "p"}, nil)
	p.sees(`a[31mb"` + fmt.Sprintf("%0121d", 0) + " mine")
}

func (p *person) sessionOf(process string) string {
	listed, err := p.Listed(process)
	if err != nil {
		p.t.Fatal(err)
	}
	return listed.SessionID
}
