package rpc

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
)

// BenchmarkEcho is a small request and its answer over loopback, one at a time.
func BenchmarkEcho(b *testing.B) {
	a, z := tcpPair(b)
	serve(b, NewWebSocket(a, nil), echo)
	client := NewWebSocketClient(z, nil)
	request := []byte(`{"id":12345,"method":"process/write","params":{"processId":"p","writeId":"w","chunk":"aGVsbG8="}}`)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = client.Seal(append(client.Open(buf[:0], len(request)), request...), 0, len(request))
		if err := client.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := client.Read(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPipelined is the same with many requests on their way.
func BenchmarkPipelined(b *testing.B) {
	a, z := tcpPair(b)
	serve(b, NewWebSocket(a, nil), echo)
	client := NewWebSocketClient(z, nil)
	const window = 256
	request := []byte(`{"id":12345,"method":"process/write","params":{"processId":"p","writeId":"w","chunk":"aGVsbG8="}}`)
	var buf []byte
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		n := min(left, window)
		buf = buf[:0]
		for range n {
			mark := len(buf)
			buf = client.Seal(append(client.Open(buf, len(request)), request...), mark, len(request))
		}
		if err := client.Write(buf); err != nil {
			b.Fatal(err)
		}
		for range n {
			if _, err := client.Read(); err != nil {
				b.Fatal(err)
			}
		}
		left -= n
	}
}

// pump is a source of messages of one size.
type pump struct {
	msg  []byte
	left atomic.Int64
}

func (p *pump) Next(b *Batch) bool {
	if p.left.Add(-1) < 0 {
		return false
	}
	b.Seal(append(b.Open(len(p.msg)), p.msg...))
	return true
}

func (p *pump) Written() {}

func benchmarkPump(b *testing.B, size int) {
	a, z := tcpPair(b)
	c := serve(b, NewWebSocket(a, nil), echo)
	p := &pump{msg: bytes.Repeat([]byte{'A'}, size)}
	p.left.Store(int64(b.N))
	header := 10
	if size < 126 {
		header = 2
	} else if size < 65536 {
		header = 4
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	c.Feed(p).Wake()
	if _, err := io.CopyN(io.Discard, z, int64(b.N)*int64(size+header)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPump is a source that always has something: chunks of 64 KiB in
// base64, and lines.
func BenchmarkPump(b *testing.B) {
	b.Run("64KiB", func(b *testing.B) { benchmarkPump(b, 64<<10*4/3+100) })
	b.Run("150B", func(b *testing.B) { benchmarkPump(b, 150) })
}
