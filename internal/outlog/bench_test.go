package outlog

import (
	"errors"
	"testing"
)

// readNew visits and reports all entries that a cursor has not seen.
func readNew(b *testing.B, c *Cursor, visit func(Entry)) {
	for {
		err := c.Next(visit)
		if errors.Is(err, ErrNone) {
			c.log.Sent(c.Seq())
			return
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend64K is a busy process whose client keeps up: every segment goes to
// the spool and is dropped when Retain is reached.
func BenchmarkAppend64K(b *testing.B) { benchmarkAppend(b, MaxEntry) }

// BenchmarkAppendSmall is a process that prints short lines.
func BenchmarkAppendSmall(b *testing.B) { benchmarkAppend(b, 16) }

func benchmarkAppend(b *testing.B, size int) {
	l := New(NewPool(b.TempDir(), ample), Config{Retain: 8 << 20})
	defer l.End()
	c, visit := l.Cursor(0), func(Entry) {}
	step := func() {
		if err := l.Append(Stdout, noise[:size]); err != nil {
			b.Fatal(err)
		}
		readNew(b, c, visit)
	}
	for range 16 << 20 / (size + EntryOverhead) { // until the log has its final size
		step()
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}

// BenchmarkCatchUp is a client that reads 64 MiB from the spool after a resume.
func BenchmarkCatchUp(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"64K", MaxEntry}, {"100", 100}} {
		b.Run(size.name, func(b *testing.B) {
			const total = 64 << 20
			l := New(NewPool(b.TempDir(), ample), Config{Retain: ample})
			defer l.End()
			last := l.Cursor(0) // reads each entry, because unread short ones would be joined
			for range total / size.bytes {
				if err := l.Append(Stdout, noise[:size.bytes]); err != nil {
					b.Fatal(err)
				}
				last.Seek(l.State().Next - 2)
				if err := last.Next(func(Entry) {}); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(total)
			b.ReportAllocs()
			var n int
			for b.Loop() {
				n = 0
				readNew(b, l.Cursor(0), func(e Entry) { n += len(e.Data) })
			}
			if n != total/size.bytes*size.bytes {
				b.Fatalf("read %d bytes", n)
			}
		})
	}
}
