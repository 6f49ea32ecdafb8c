package server

import (
	"testing"

	"github.com/tetherexec/tether/wire"
)

// What an account adds to the message of an exit.
func BenchmarkEncodeUsage(b *testing.B) {
	n := uint64(123456789)
	u := &wire.Usage{WallUs: n, BlockedUs: 0, UserUs: &n, SystemUs: &n, CPUOf: wire.OfTree, MemoryPeakBytes: &n, MemoryOf: wire.OfLargest, ReadBytes: &n, WrittenBytes: &n, IOOf: wire.OfWaited}
	var out []byte
	for b.Loop() {
		out = wire.AppendValue(out[:0], u)
	}
	b.ReportMetric(float64(len(out)), "bytes/exit")
}
