package gateway

import (
	"bytes"
	"testing"

	"github.com/tetherexec/tether/internal/websocket"
)

// A boundary finds the ends of frames, however their bytes are split.
func TestBoundary(t *testing.T) {
	var stream []byte
	ends := map[int]bool{0: true}
	for _, size := range []int{0, 1, 125, 126, 65535, 65536} {
		stream = websocket.AppendFrame(stream, websocket.Text, true, false, make([]byte, size))
		ends[len(stream)] = true
	}
	for _, size := range []int{1, 2, 3, 1000, len(stream)} {
		var b boundary
		for at := 0; at < len(stream); {
			piece := stream[at:min(at+size, len(stream))]
			ahead := boundary{bytes.Clone(b.header), b.left}
			n := ahead.finish(piece)
			if was := b.between(); was && n != 0 || !was && (n == 0 || ahead.between() != ends[at+n] || !ahead.between() && n < len(piece)) {
				t.Fatalf("at byte %d of pieces of %d, the end of the frame is after %d bytes", at, size, n)
			}
			b.pass(piece)
			if at += len(piece); b.between() != ends[at] {
				t.Fatalf("at byte %d of pieces of %d, a frame ends: %v", at, size, b.between())
			}
		}
	}
}
