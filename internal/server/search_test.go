//go:build unix

package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// searchIn searches the output of a process.
func searchIn(t *testing.T, c *tethertest.Client, params map[string]any) (r wire.SearchResult) {
	t.Helper()
	m := c.Call("tether/process/search", params)
	if m.Error != nil {
		t.Fatal(m.Error)
	}
	if err := wire.Decode(m.Result, &r); err != nil {
		t.Fatalf("%s: %v", m.Raw, err)
	}
	return r
}

// A search finds output that the client was not sent yet, in memory and on disk,
// and leaves it unsent.
func TestSearchInOutputThatWasNotRead(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.HandshakeWith(map[string]any{"clientName": "test", "tether": map[string]any{"acks": true}})
	const lines = 400_000
	c.Start(tethertest.Shell("p", fmt.Sprintf("seq %d; echo done >&2; read x", lines), map[string]any{"pipeStdin": true}))
	other := tethertest.Connect(t, s.URL)
	of := func(more map[string]any) map[string]any {
		more["sessionId"], more["processId"] = hello.Tether.PublicID, "p"
		return more
	}
	for _, last := range []map[string]any{{"stream": "stderr"}, {"stream": "stdout", "pattern": fmt.Sprintf("^%d$", lines)}} { // either may come first
		tethertest.Eventually(t, func() error {
			if r := searchIn(t, other, of(last)); len(r.Lines) != 1 {
				return fmt.Errorf("%+v", r)
			}
			return nil
		})
	}
	before, err := other.Listed("p")
	if err != nil {
		t.Fatal(err)
	}
	r := searchIn(t, other, of(map[string]any{"pattern": "^(7|399999)$", "before": 1, "after": 1, "stream": "stdout"}))
	var got []string
	for _, l := range r.Lines {
		got = append(got, l.Text)
	}
	if text := strings.Join(got, " "); text != "6 7 8 399998 399999 400000" || r.Evicted || r.FirstSeq != 1 || r.Truncated != nil {
		t.Errorf("%q, %+v", text, r)
	}
	if r := searchIn(t, other, of(map[string]any{"fromLine": 200_000, "toLine": 200_001})); len(r.Lines) != 2 || r.Lines[0].Line != 200_000 {
		t.Errorf("%+v", r)
	}
	if after, err := other.Listed("p"); err != nil || after.SentSeq != before.SentSeq || after.HeldBytes != before.HeldBytes || after.HeldBytes == 0 || after.Observers != 0 {
		t.Errorf("%+v became %+v, %v", before, after, err)
	}
	c.Write("p", "1", "\n")
	if out := c.Finish("p", 0); strings.Count(out.Text["stdout"], "\n") != lines {
		t.Error("the client has not got everything")
	}
}

// A search of a process that never ends does end, and a search whose connection has
// ended delays nothing.
func TestSearchDoesNotFollow(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{Retain: 8 << 20, SpoolLimit: 64 << 20})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Shell("p", "yes", nil))
	c.AwaitEvent("p")
	gone := tethertest.Dial(t, s.URL)
	gone.Handshake("")
	for range 20 {
		gone.Ask("tether/process/search", map[string]any{"processId": "p", "pattern": "n"})
	}
	gone.Close()
	if m := c.Call("tether/process/search", map[string]any{"processId": "p", "pattern": "n", "toLine": 100_000}); m.Error != nil && m.Error.Message != "output is forgotten faster than it can be searched" {
		t.Errorf("%s", m.Raw)
	}
	c.Terminate("p")
}
