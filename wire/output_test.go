package wire

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"
)

// Property: Parse and Decode accept each message that ParseOutput accepts, with the same result,
// and refuse each message that it refuses.
func FuzzParseOutput(f *testing.F) {
	for _, chunk := range []string{"", "b25l", "b25lCg==", "b25lCh==", "b2\\/l", `AAAA","more":"x`, "AA\nA", "é"} {
		f.Add([]byte(fmt.Sprintf(`{"method":"process/output","params":{"processId":"p","seq":12,"stream":"stdout","chunk":"%s"}}`, chunk)))
	}
	f.Add([]byte(`{"method":"process/output","params":{"processId":"p","seq":012,"stream":"pty","chunk":""}}`))
	f.Add([]byte(`{"method":"process/output","params":{"processId":"p","seq":1,"stream":"other","chunk":""}} `))
	f.Fuzz(func(t *testing.T, msg []byte) {
		m, parseErr := Parse(bytes.Clone(msg))
		var want ProcessOutput
		err := parseErr
		if err == nil {
			err = Decode(m.Params, &want)
		}
		got, taken, gotErr := ParseOutput(bytes.Clone(msg))
		if !taken {
			return
		}
		if (err == nil) != (gotErr == nil) {
			t.Fatalf("ParseOutput: %v, Parse: %v", gotErr, err)
		}
		if err == nil && (string(got.ProcessID) != want.ProcessID || got.Seq != want.Seq || got.Stream != want.Stream || !bytes.Equal(got.Chunk, want.Chunk)) {
			t.Fatalf("ParseOutput: %+v, Parse: %+v", got, want)
		}
	})
}

// Output of each length is decoded in place.
func TestParseOutput(t *testing.T) {
	data := make([]byte, 0, 600)
	for len(data) < cap(data) {
		msg := []byte(`{"method":"process/output","params":{"processId":"a-1","seq":77,"stream":"stderr","chunk":"`)
		msg = append(base64.StdEncoding.AppendEncode(msg, data), `"}}`...)
		n, taken, err := ParseOutput(msg)
		if !taken || err != nil || !bytes.Equal(n.Chunk, data) || n.Seq != 77 || n.Stream != StreamStderr || string(n.ProcessID) != "a-1" {
			t.Fatalf("%d bytes: taken %t, %v, %+v", len(data), taken, err, n)
		}
		data = append(data, byte(len(data)*7))
	}
}

func BenchmarkParseOutput(b *testing.B) {
	msg := []byte(`{"method":"process/output","params":{"processId":"a-1","seq":77,"stream":"stderr","chunk":"`)
	msg = append(base64.StdEncoding.AppendEncode(msg, make([]byte, 8192)), `"}}`...)
	buf := make([]byte, len(msg))
	b.SetBytes(8192)
	for b.Loop() {
		copy(buf, msg)
		if _, taken, err := ParseOutput(buf); !taken || err != nil {
			b.Fatal(taken, err)
		}
	}
}
