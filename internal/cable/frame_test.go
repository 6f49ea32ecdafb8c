package cable

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/frames"
)

// readItems returns the items that a frameReader makes of a stream.
func readItems(stream []byte, limit int64) (items []item, err error) {
	r := frameReader{in: bufio.NewReader(bytes.NewReader(stream)), limit: limit, emit: func(it item) bool {
		items = append(items, it)
		return true
	}}
	err = r.run()
	return items, err
}

func TestLargeMessagesPassAsBytes(t *testing.T) {
	var stream []byte
	add := func(f frames.Frame) { stream = append(stream, f.Bytes()...) }
	add(frames.New(frames.OpText, false, []byte("small")))
	add(frames.New(frames.OpContinuation, false, []byte(strings.Repeat("x", 100))))
	add(frames.Ping(nil))
	add(frames.New(frames.OpContinuation, true, []byte("rest")))
	add(frames.Text([]byte("next")))
	items, err := readItems(stream, 50)
	if err != io.EOF {
		t.Fatal(err)
	}
	var all []byte
	for i, it := range items {
		all = append(all, it.raw...)
		if last := i == len(items)-1; last != (it.kind == Text) {
			t.Errorf("item %d is of kind %d: %q", i, it.kind, it.payload)
		}
	}
	if !bytes.Equal(all, stream) {
		t.Errorf("got %q, want %q", all, stream)
	}
}

// All bytes are forwarded in order; only control frames may overtake fragments.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("no frames at all"))
	f.Add(frames.Text([]byte("hello")).Bytes())
	f.Add(append(frames.New(frames.OpText, false, []byte("a")).Bytes(), frames.Ping(nil).Bytes()...))
	f.Add([]byte{0x01, 0x01, 'a', 0x07, 0x01, 'b'}) // an unknown frame among fragments
	f.Add([]byte{0x81, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2})
	f.Add([]byte{0x00, 0x02, 1, 2, 0x83, 0x00, 0x01, 0x01, 1, 0x81, 0x01, 2, 0x81, 0x05})
	f.Fuzz(func(t *testing.T, stream []byte) {
		items, err := readItems(stream, 64)
		if err == nil {
			t.Fatal("the end was missed")
		}
		var all []byte
		control := false
		for _, it := range items {
			all = append(all, it.raw...)
			control = control || it.kind != other && !it.kind.isData()
		}
		if len(all) != len(stream) || !control && !bytes.Equal(all, stream) {
			t.Errorf("got %q, want %q", all, stream)
		}
	})
}
