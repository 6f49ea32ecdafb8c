package wire

import (
	"bytes"
	"fmt"
	"testing"
)

// ParsePortData takes a message only if it reads the same as Parse and Decode.
func FuzzParsePortData(f *testing.F) {
	for _, chunk := range []string{"", "b25l", "b25lCg==", "b25lCh==", "b2\\/l", `AAAA","end":true,"x":"x`, "AA\nA", "é"} {
		f.Add([]byte(fmt.Sprintf(`{"method":"tether/port/write","params":{"connectionId":"c","offset":12,"chunk":"%s"}}`, chunk)))
	}
	f.Add([]byte(`{"method":"tether/port/write","params":{"connectionId":"c","offset":012,"chunk":""}}`))
	f.Add(AppendPortData(nil, NotePortWrite, `c"\`, 1<<60, []byte("hello"), true))
	f.Fuzz(func(t *testing.T, msg []byte) {
		m, err := Parse(bytes.Clone(msg))
		var want PortData
		if err == nil {
			err = Decode(m.Params, &want)
		}
		got, taken, gotErr := ParsePortData(bytes.Clone(msg), NotePortWrite)
		if !taken {
			return
		}
		if (err == nil) != (gotErr == nil) {
			t.Fatalf("ParsePortData: %v, Parse: %v", gotErr, err)
		}
		if err == nil && (m.Method != NotePortWrite || want.End != nil || string(got.ConnectionID) != want.ConnectionID || got.Offset != want.Offset || !bytes.Equal(got.Chunk, want.Chunk)) {
			t.Fatalf("ParsePortData: %+v, Parse: %+v", got, want)
		}
	})
}

// What the two functions append is what Decode reads.
func TestAppendPort(t *testing.T) {
	chunk := []byte("any bytes \x00\xff")
	for _, end := range []bool{false, true} {
		text := AppendPortData(nil, NotePortData, `c"1`, 7, chunk, end)
		m, err := Parse(text)
		var got PortData
		if err != nil || m.Method != NotePortData || Decode(m.Params, &got) != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got.ConnectionID != `c"1` || got.Offset != 7 || !bytes.Equal(got.Chunk, chunk) || (got.End != nil) != end {
			t.Errorf("%s: %+v", text, got)
		}
		if most := PortDataOverhead + len(got.ConnectionID) + fastBase64.EncodedLen(len(chunk)); len(text) > most {
			t.Errorf("%d bytes, more than %d", len(text), most)
		}
	}
	text := AppendPortAck(nil, NotePortAck, "c", 3, 9)
	m, err := Parse(text)
	var got PortAck
	if err != nil || m.Method != NotePortAck || Decode(m.Params, &got) != nil || got != (PortAck{"c", 3, 9}) {
		t.Errorf("%s: %+v, %v", text, got, err)
	}
	if n, taken, err := ParsePortData(AppendPortData(nil, NotePortWrite, "c", 1<<60, chunk, false), NotePortWrite); !taken || err != nil || !bytes.Equal(n.Chunk, chunk) || n.Offset != 1<<60 {
		t.Errorf("%+v, %v, %v", n, taken, err)
	}
}
