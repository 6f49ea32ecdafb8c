//go:build unix

package appserver

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A notification in pieces equals the notification in one piece, for any output.
func TestExitInPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "é", "€", "😀", "\x00", "\"", "\xff", "\x80", "\xe2\x82", "\xf0\x9f\x98", "\n", strings.Repeat("x", 1000)}
	text := func(size int) []byte {
		var b strings.Builder
		for b.Len() < size {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		return []byte(b.String())
	}
	for i := range 15 {
		stdout, stderr := stream{text: text(random.IntN(4 * exitPiece))}, stream{text: text(random.IntN(2 * exitPiece)), full: true}
		var got []byte
		pieces := exitPieces([]byte("head"), stdout, stderr)
		for more := true; more; {
			var piece []byte
			var err error
			if piece, more, err = pieces(nil); err != nil {
				t.Fatal(err)
			}
			if len(piece) > 8*exitPiece {
				t.Errorf("a piece of %d bytes", len(piece))
			}
			got = append(got, piece...)
		}
		want := `head,"stdout":` + string(wire.AppendString(nil, string(stdout.text))) + `,"stdoutCapReached":false,"stderr":` +
			string(wire.AppendString(nil, string(wholeCharacters(stderr.text)))) + `,"stderrCapReached":true},"emittedAtMs":`
		if !strings.HasPrefix(string(got), want) {
			t.Fatalf("%d: %d bytes of output are encoded differently", i, len(stdout.text)+len(stderr.text))
		}
	}
}

// Output that waits for its process to end has one limit for all clients. It is released
// when the client has it or has left.
func TestCollectedOutputOfAllClients(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	f := start(t, func(s *Server) { s.maxCollected = limit })
	first, second := f.connect(), f.connect()
	print := func(c *user, handle string) {
		c.sh(handle, j{"outputBytesCap": limit, "streamStdin": true}, fmt.Sprintf(`head -c %d /dev/zero | tr '\\0' x; read x`, limit*3/4))
	}
	print(first, "a")
	tethertest.Eventually(t, func() error {
		if n := f.collected.Load(); n != limit*3/4 {
			return fmt.Errorf("%d bytes are collected", n)
		}
		return nil
	})
	print(second, "b")
	tethertest.Eventually(t, func() error { // a piece that does not fit is dropped
		if n := f.collected.Load(); n < limit-64<<10 {
			return fmt.Errorf("%d bytes are collected", n)
		}
		return nil
	})
	first.write("a", "\n")
	if e := first.exited("a"); len(e.Stdout) != limit*3/4 || e.StdoutCapReached {
		t.Errorf("the first client got %d bytes", len(e.Stdout))
	}
	second.write("b", "\n")
	if e := second.exited("b"); len(e.Stdout) >= limit*3/4 || !e.StdoutCapReached {
		t.Errorf("the second client got %d bytes", len(e.Stdout))
	}
	print(first, "c")
	tethertest.Eventually(t, func() error {
		if n := f.collected.Load(); n != limit*3/4 {
			return fmt.Errorf("%d bytes are collected", n)
		}
		return nil
	})
	first.Close()
	tethertest.Eventually(t, func() error {
		if n := f.collected.Load(); n != 0 {
			return fmt.Errorf("%d bytes are collected when no client is left", n)
		}
		return nil
	})
}
