package tethertest

import (
	"encoding/binary"
	"io"
	"testing"
)

// Pattern returns n bytes that depend on the seed and do not repeat. So a lost, doubled or swapped piece changes their hash.
func Pattern(seed uint64, n int64) io.Reader {
	return io.LimitReader(&pattern{state: seed*2 + 1}, n)
}

// pattern counts with a large odd step; each word is different.
type pattern struct {
	state uint64
	rest  []byte
}

func (p *pattern) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		if len(p.rest) == 0 {
			p.state += 0x9e3779b97f4a7c15
			p.rest = binary.LittleEndian.AppendUint64(p.rest[:0:0], p.state^p.state>>31)
		}
		c := copy(b[n:], p.rest)
		p.rest = p.rest[c:]
		n += c
	}
	return n, nil
}

// PatternBytes returns n bytes that look random.
func PatternBytes(t testing.TB, n int64) []byte {
	t.Helper()
	data, err := io.ReadAll(Pattern(1, n))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
