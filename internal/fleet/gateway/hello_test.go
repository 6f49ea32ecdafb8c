package gateway

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/tetherexec/tether/internal/websocket"
)

// The memory for the first message grows with what has arrived, not with what a client announces.
func TestHelloTakesNoMemoryInAdvance(t *testing.T) {
	frame := websocket.AppendFrame(nil, websocket.Text, true, true, make([]byte, maxHello))
	least := uint64(math.MaxUint64)
	for range 20 { // other goroutines of this process allocate, too
		in := bufio.NewReader(bytes.NewReader(frame[:100]))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := readHello(in, nil); err == nil {
			t.Error("no error")
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > maxHello/4 {
		t.Errorf("%d bytes for a message of which 100 bytes have arrived", least)
	}
}

// What a client sends reaches the host as it was, except for control frames before the first message.
func TestHelloKeepsTheMessage(t *testing.T) {
	request := []byte(`{"id":7,"method":"initialize","params":{"clientName":"test","resumeSessionId":"abc"}}`)
	ping := websocket.AppendFrame(nil, websocket.Ping, true, true, []byte("there?"))
	first := websocket.AppendFrame(nil, websocket.Text, false, true, request[:20])
	second := websocket.AppendFrame(nil, websocket.Continuation, true, true, request[20:])
	unmasked := websocket.AppendFrame(nil, websocket.Text, true, false, request)
	huge := websocket.AppendFrame(nil, websocket.Text, true, true, make([]byte, maxHello+1))
	for name, row := range map[string]struct {
		sent, raw [][]byte
		resume    string
		pings     int
	}{
		"fragments":              {[][]byte{first, second}, [][]byte{first, second}, "abc", 0},
		"pings":                  {[][]byte{ping, first, ping, second}, [][]byte{first, second}, "abc", 2},
		"without a mask":         {[][]byte{unmasked}, nil, "", 0},
		"a continuation":         {[][]byte{second}, nil, "", 0},
		"a message in a message": {[][]byte{first, first}, [][]byte{first}, "", 0},
		"huge":                   {[][]byte{huge}, nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			sent, pings := bytes.Join(row.sent, nil), 0
			in := bufio.NewReader(iotest.OneByteReader(bytes.NewReader(append(sent, "more"...))))
			h, err := readHello(in, func(op websocket.Op, payload []byte) error {
				if op == websocket.Ping && string(payload) == "there?" {
					pings++
				}
				return nil
			})
			if err != nil || h.resume != row.resume || h.init != (row.resume != "") || pings != row.pings {
				t.Errorf("%+v %d %v", h, pings, err)
			}
			rest, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			want := append(bytes.Join(row.raw, nil), "more"...)
			if len(row.raw) < len(row.sent) && row.pings == 0 { // the host finds out what is wrong
				want = append(sent, "more"...)
			}
			if got := append(h.raw, rest...); !bytes.Equal(got, want) {
				t.Errorf("the host gets %d bytes, not %d", len(got), len(want))
			}
		})
	}
}
