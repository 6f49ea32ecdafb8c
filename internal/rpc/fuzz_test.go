package rpc

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/tetherexec/tether/internal/tethertest/frames"
)

// Whatever a peer sends: no panic, an end for a known reason, memory in proportion
// to the bytes sent, and the same messages however the bytes arrive.
func FuzzWebSocketRead(f *testing.F) {
	for _, v := range violations {
		f.Add(bytes.Join(v.frames, nil), false)
	}
	f.Add(masked(frames.OpText, true, "{}"), false)
	f.Add(append(masked(frames.OpText, false, "{"), masked(frames.OpContinuation, true, "}")...), false)
	f.Add(masked(frames.OpClose, true, "\x03\xe8bye"), false)
	f.Add(frames.Text([]byte("{}")).Bytes(), true)
	f.Fuzz(func(t *testing.T, data []byte, client bool) {
		var whole []string
		n := allocated(func() { whole = readAll(t, bytes.NewReader(data), client) })
		if limit := uint64(40*len(data) + 16*growStep); n > limit {
			t.Errorf("%d bytes allocate %d", len(data), n)
		}
		single := readAll(t, oneByOne{bytes.NewReader(data)}, client)
		if len(whole) != len(single) {
			t.Fatalf("%q in one piece, %q byte by byte", whole, single)
		}
		for i := range whole {
			if whole[i] != single[i] {
				t.Fatalf("%q in one piece, %q byte by byte", whole, single)
			}
		}
	})
}

func readAll(t *testing.T, in io.Reader, client bool) (got []string) {
	s := newWebSocket(&scriptedConn{in: in}, nil, client)
	s.OnControl(func(k Control, payload []byte) {
		if len(payload) > 125 {
			t.Errorf("control frame of %d bytes", len(payload))
		}
		got = append(got, string(rune('0'+k))+string(payload))
	})
	for {
		msg, err := s.Read()
		if err == nil {
			got = append(got, string(msg))
			continue
		}
		if _, ok := errors.AsType[*CloseError](err); !ok && err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Errorf("ends with %v", err)
		}
		return append(got, err.Error())
	}
}

// oneByOne hands out its bytes one by one.
type oneByOne struct{ r io.Reader }

func (o oneByOne) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

// Each line is a message of its own, valid, not blank and without its end.
func FuzzLines(f *testing.F) {
	for _, text := range []string{"", "\n", "a\nb", "a\r\n \n\xff\n", "\r\r\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := linesOf(string(data))
		var want [][]byte
		var end error
		for line := range bytes.Lines(data) {
			if line[len(line)-1] != '\n' {
				break
			}
			line = bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			if !utf8.Valid(line) {
				end = violation(CloseBadData, "line is not valid UTF-8")
				break
			}
			want = append(want, line)
		}
		if end == nil {
			end = io.EOF
		}
		for _, line := range want {
			if got, err := s.Read(); err != nil || !bytes.Equal(got, line) {
				t.Fatalf("got %q, %v, want %q", got, err, line)
			}
		}
		if got, err := s.Read(); err == nil || err.Error() != end.Error() {
			t.Fatalf("got %q, %v at the end", got, err)
		}
	})
}
