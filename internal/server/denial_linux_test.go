package server_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// Like every path on the wire, the path of a denial is a URI, in notifications and
// answers.
func TestDenialNamesThePathAsURI(t *testing.T) { testDenial(t, false) }

// A denial is recognised without a separate standard error, too.
func TestDenialWithOneStream(t *testing.T) { testDenial(t, true) }

func testDenial(t *testing.T, oneStream bool) {
	tethertest.NeedBubblewrap(t)
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	file := filepath.Join(t.TempDir(), "a new file")
	c.Start(tethertest.Shell("p", `echo begin; touch "$FILE"; echo end; exit 1`, map[string]any{
		"oneStream": oneStream,
		"env":       map[string]string{"PATH": "/usr/bin:/bin", "FILE": file},
		"sandbox":   json.RawMessage(`{"mode":"require","policy":{"type":"read-only"},"sandboxPolicyCwd":"/"}`),
	}))
	var exited wire.ProcessExited
	m := c.Await("the exit", func(m tethertest.Message) bool { return m.Method == wire.NoteProcessExited })
	if err := wire.Decode(m.Params, &exited); err != nil {
		t.Fatalf("%s: %v", m.Raw, err)
	}
	m = c.Call("process/read", map[string]any{"processId": "p"})
	var read wire.ReadResult
	if err := wire.Decode(m.Result, &read); err != nil {
		t.Fatalf("%s: %v", m.Raw, err)
	}
	if exited.SandboxDenied == nil || !*exited.SandboxDenied || !read.SandboxDenied {
		t.Errorf("sandboxDenied is missing in %+v or %+v", exited, read)
	}
	if stderr := slices.ContainsFunc(read.Chunks, func(o wire.OutputChunk) bool { return o.Stream == wire.StreamStderr }); stderr == oneStream {
		t.Errorf("one stream: %t, a stream of errors: %t", oneStream, stderr)
	}
	for from, fact := range map[string]*wire.DenialFact{"process/exited": exited.TetherDenial, "process/read": read.TetherDenial} {
		if fact == nil || fact.Path == nil || fact.Path.String() != wire.PathToURI(file) || fact.PathText() != file || fact.Access == nil || *fact.Access != "write" {
			t.Errorf("%s says %+v", from, fact)
		}
	}
}

// The denial belongs to the exit: a read reports it while the output is still open.
func TestDenialBeforeTheOutputEnds(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	// Only the network is restricted, so the child that holds the output survives.
	c.Start(tethertest.Shell("p", `sleep 1000 & echo "x: Permission denied" >&2; exit 1`, map[string]any{
		"sandbox": json.RawMessage(`{"permissions":{"type":"external","network":"restricted"},"windowsSandboxLevel":"disabled"}`),
	}))
	c.Await("the exit", func(m tethertest.Message) bool { return m.Method == wire.NoteProcessExited })
	for _, after := range []int{0, 1, 2} { // with output, and without
		m := c.Call("process/read", map[string]any{"processId": "p", "afterSeq": after})
		var read wire.ReadResult
		if err := wire.Decode(m.Result, &read); err != nil {
			t.Fatalf("%s: %v", m.Raw, err)
		}
		if !read.Exited || read.Closed || read.ExitCode == nil || *read.ExitCode != 1 || !read.SandboxDenied {
			t.Errorf("a read after %d is answered %s", after, m.Raw)
		}
	}
	c.Terminate("p")
}
