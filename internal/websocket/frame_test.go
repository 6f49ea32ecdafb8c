package websocket

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/frames"
)

// AppendFrame and an independent reader agree about frames of all sizes, and about frames after other bytes.
func TestAppendFrame(t *testing.T) {
	for _, size := range []int{0, 1, 125, 126, 65535, 65536, 200_000} {
		for _, masked := range []bool{false, true} {
			payload := bytes.Repeat([]byte("0123456789\xff"), size/11+1)[:size]
			original := bytes.Clone(payload)
			b := AppendFrame([]byte("before"), Binary, size%2 == 0, masked, payload)
			if got := len(b) - len("before") - size; got != HeaderSize(size, masked) {
				t.Errorf("%d bytes, masked %v: header of %d bytes, HeaderSize says %d", size, masked, got, HeaderSize(size, masked))
			}
			in := bytes.NewReader(b[len("before"):])
			f, err := frames.Read(in)
			if err != nil || in.Len() != 0 || f.Op != frames.OpBinary || f.Fin != (size%2 == 0) || f.Masked != masked || f.Reserved != 0 {
				t.Errorf("%d bytes, masked %v: read as opcode %d, fin %v, masked %v, %d bytes left: %v", size, masked, f.Op, f.Fin, f.Masked, in.Len(), err)
			}
			if !bytes.Equal(f.Payload, original) || !bytes.Equal(payload, original) {
				t.Errorf("%d bytes, masked %v: the payload has changed", size, masked)
			}
		}
	}
}

// Two frames of a client do not share their key.
func TestKeysDiffer(t *testing.T) {
	keys := map[string]bool{}
	for range 8 {
		keys[string(AppendFrame(nil, Ping, true, true, nil)[2:])] = true
	}
	if len(keys) < 2 {
		t.Errorf("the same key in eight frames: %v", keys)
	}
}

// A payload can be masked in pieces of any size.
func TestMaskInPieces(t *testing.T) {
	key := [4]byte{1, 2, 4, 8}
	for size := range 150 {
		for cut := 0; cut <= size; cut += 1 + size/20 {
			b := make([]byte, size)
			Mask(b[:cut], key, 0)
			Mask(b[cut:], key, cut)
			for i := range b {
				if b[i] != key[i%4] {
					t.Fatalf("%d bytes, cut at %d: byte %d is %d", size, cut, i, b[i])
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		h                      Header
		fromClient, fragmented bool
		ok                     bool
	}{
		"text of a client":             {Header{Op: Text, Masked: true}, true, false, true},
		"text of a server":             {Header{Op: Text}, false, false, true},
		"continuation":                 {Header{Op: Continuation}, false, true, true},
		"ping between fragments":       {Header{Op: Ping, Fin: true, Length: 125}, false, true, true},
		"close":                        {Header{Op: Close, Fin: true}, false, false, true},
		"text of a client, unmasked":   {Header{Op: Text}, true, false, false},
		"text of a server, masked":     {Header{Op: Text, Masked: true}, false, false, false},
		"continuation without message": {Header{Op: Continuation}, false, false, false},
		"binary between fragments":     {Header{Op: Binary}, false, true, false},
		"long ping":                    {Header{Op: Ping, Fin: true, Length: 126}, false, false, false},
		"ping in fragments":            {Header{Op: Ping}, false, false, false},
		"reserved bit":                 {Header{Op: Text, Reserved: 4}, false, false, false},
		"opcode 3":                     {Header{Op: 3}, false, false, false},
		"opcode 7":                     {Header{Op: 7}, false, false, false},
		"opcode 11":                    {Header{Op: 11, Fin: true}, false, false, false},
		"opcode 15":                    {Header{Op: 15, Fin: true}, false, false, false},
	} {
		if err := test.h.Check(test.fromClient, test.fragmented); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseClose(t *testing.T) {
	for _, code := range []uint16{1000, 1003, 1007, 1011, 1012, 1013, 1014, 3000, 4999} {
		f := frames.Close(code, "why")
		if got, reason, err := ParseClose(f.Payload); got != code || reason != "why" || err != nil {
			t.Errorf("%d: %d %q %v", code, got, reason, err)
		}
	}
	for _, code := range []uint16{0, 999, 1004, 1005, 1006, 1015, 1016, 2999} {
		if _, _, err := ParseClose(frames.Close(code, "").Payload); err == nil {
			t.Errorf("%d is accepted", code)
		}
	}
	for _, payload := range []string{"\x03", "\x03\xe8\xff"} {
		if _, _, err := ParseClose([]byte(payload)); err == nil {
			t.Errorf("%q is accepted", payload)
		}
	}
}

// ReadHeader reads the same header as an independent reader, from the same bytes. Writing the header gives a header
// that reads the same.
func FuzzReadHeader(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x81})
	f.Add(frames.Text([]byte("hello")).Bytes())
	f.Add(frames.Text(make([]byte, 300)).FromClient().Bytes())
	f.Add(frames.Text(make([]byte, 70_000)).FromClient().Bytes())
	f.Add([]byte{0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4})
	f.Add([]byte{0x82, 0x7e, 0, 1, 'x'}) // longer than necessary
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		h, err := ReadHeader(in)
		size := len(data) - in.Len()
		want, wantErr := frames.Read(bytes.NewReader(data))
		if err != nil {
			if wantErr == nil {
				t.Fatalf("%v, but there is a frame: %+v", err, want)
			}
			if (err == io.EOF) != (len(data) == 0) || err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errLength) {
				t.Fatal(err)
			}
			return
		}
		if size != SizeFrom(data[1]) {
			t.Fatalf("read %d bytes, SizeFrom says %d", size, SizeFrom(data[1]))
		}
		again := make([]byte, MaxHeader)
		h.Put(again)
		if back, err := ReadHeader(bytes.NewReader(again)); err != nil || back != h {
			t.Fatalf("%+v written and read is %+v: %v", h, back, err)
		}
		if wantErr != nil {
			return // the payload is not complete
		}
		payload := bytes.Clone(data[size : size+int(h.Length)])
		if h.Masked {
			Mask(payload, h.Mask, 0)
		}
		if got := (frames.Frame{Fin: h.Fin, Reserved: h.Reserved, Op: byte(h.Op), Masked: h.Masked}); got.Fin != want.Fin ||
			got.Reserved != want.Reserved || got.Op != want.Op || got.Masked != want.Masked || !bytes.Equal(payload, want.Payload) {
			t.Fatalf("%+v %q, want %+v", h, payload, want)
		}
	})
}
