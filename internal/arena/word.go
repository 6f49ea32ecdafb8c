package arena

import (
	"sync/atomic"

	"github.com/tetherexec/tether/internal/crash"
)

// A Word is a number in the arena. A process that dies leaves its old or its new value.
type Word struct{ v uint64 }

// Load returns the value.
func (w *Word) Load() uint64 { return atomic.LoadUint64(&w.v) }

// Store sets the value. The stores that the program made before are visible to every
// process that sees this one.
func (w *Word) Store(v uint64, behind *crash.Point) {
	atomic.StoreUint64(&w.v, v)
	behind.Passed()
}

// Offset returns the word as the kernel wants it for a position in a file, which a system
// call reads and writes.
func (w *Word) Offset() *int64 { return (*int64)(ptr(&w.v)) }

// A Word32 is a Word of 32 bits, such as the kernel writes for a process number.
type Word32 struct{ v uint32 }

// Load returns the value.
func (w *Word32) Load() uint32 { return atomic.LoadUint32(&w.v) }

// Store sets the value.
func (w *Word32) Store(v uint32, behind *crash.Point) {
	atomic.StoreUint32(&w.v, v)
	behind.Passed()
}

// Address returns the word for a system call that writes it.
func (w *Word32) Address() *int32 { return (*int32)(ptr(&w.v)) }

func (r *Record) end() uint32 { return atomic.LoadUint32(&r.End) }

func (r *Record) setEnd(end int, behind *crash.Point) {
	atomic.StoreUint32(&r.End, uint32(end))
	behind.Passed()
}
