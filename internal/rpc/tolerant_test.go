package rpc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// A tolerant connection drops malformed messages, and answers those in which
// Salvage finds an id.
func TestTolerantConnection(t *testing.T) {
	var out bytes.Buffer
	in := strings.Join([]string{
		`junk`, `{"id":7,"result":{}}`, "\xff", `salvage me`, `{"id":1,"method":"m","params":5}`, ``,
	}, "\n")
	stream := NewLines(io.NopCloser(strings.NewReader(in)), nopCloser{&out})
	stream.SkipInvalid()
	c := New(context.Background(), stream, Config{Handler: echo, Log: slog.New(slog.DiscardHandler), ParsePrefix: "no: ",
		Salvage: func(msg []byte) (wire.ID, bool) { return wire.StringID("lost"), string(msg) == "salvage me" }})
	c.Serve()
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) != 2 || !strings.Contains(got[0], `"id":"lost"`) || !strings.Contains(got[0], `"no: `) || got[1] != `{"id":1,"result":5}` {
		t.Errorf("got %q", got)
	}
}

// wholeSource has a few messages of any size.
type wholeSource struct{ left []string }

func (s *wholeSource) Next(b *Batch) bool {
	if len(s.left) == 0 {
		return false
	}
	b.Whole([]byte(s.left[0]))
	s.left = s.left[1:]
	return true
}

func (s *wholeSource) Written() {}

// Messages of a source arrive in order, whatever their size.
func TestWhole(t *testing.T) {
	want := []string{`"a"`, `"` + strings.Repeat("b", 2*largeMessage) + `"`, `"c"`, `"` + strings.Repeat("d", maxFrame+1) + `"`, `"e"`}
	r, w := io.Pipe()
	idle, end := io.Pipe()
	c := serve(t, NewLines(idle, w), echo)
	c.Feed(&wholeSource{left: want}).Wake()
	lines := linesFrom(r)
	for _, line := range want {
		if got, err := lines.Read(); err != nil || string(got) != line {
			t.Fatalf("got %.20q (%d), %v; want %.20q (%d)", got, len(got), err, line, len(line))
		}
	}
	end.Close()
	r.Close()
}

func linesFrom(r io.ReadCloser) *Lines { return NewLines(r, nopCloser{io.Discard}) }
