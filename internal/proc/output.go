package proc

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
)

const (
	// readSize is the most that one read takes: a pipe's usual capacity, and the
	// log's largest entry.
	readSize = 64 << 10
	// pipeSize is what a pipe grows to after a read of readSize, once.
	pipeSize = 256 << 10
	// pipeGrowthTotal bounds the growth of all pipes of a supervisor: this is
	// memory of the kernel.
	pipeGrowthTotal = 32 << 20
)

// buffers are in use only between a read and its append, never while waiting.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// endpoint is our end of an output.
type endpoint struct {
	stream outlog.Stream
	file   *os.File
}

// An output carries one stream to the sink.
type output struct {
	endpoint
	conn   syscall.RawConn
	sink   Sink
	budget *atomic.Int64
	grown  int64 // bytes taken from the budget
	full   bool  // growth was tried

	try  func(fd uintptr) bool // o.tryRead, bound once
	read struct {              // its result
		buf *[readSize]byte
		n   int
		err error
	}
}

func newOutput(s *Supervisor, end endpoint, sink Sink) *output {
	conn, err := end.file.SyscallConn()
	if err != nil { // only a nil file has none
		panic(err)
	}
	o := &output{endpoint: end, conn: conn, sink: sink, budget: &s.pipeBudget}
	o.try = o.tryRead
	return o
}

// copy runs until the output ends, is cut, or the sink takes no more.
func (o *output) copy() {
	for {
		if err := o.conn.Read(o.try); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				o.copyRest()
			}
			return
		}
		if more := o.deliver(); !more {
			return
		}
	}
}

// tryRead reads once if there is something to read.
func (o *output) tryRead(fd uintptr) bool {
	o.read.buf = buffers.Get().(*[readSize]byte)
	o.read.n, o.read.err = readDescriptor(fd, o.read.buf[:])
	if o.read.n > 0 {
		return true
	}
	buffers.Put(o.read.buf)
	o.read.buf = nil
	return !errors.Is(o.read.err, syscall.EAGAIN)
}

// deliver hands what was read to the sink and reports whether more may come.
// A terminal ends with an error, a pipe with nothing.
func (o *output) deliver() bool {
	if o.read.n <= 0 {
		return false
	}
	err := o.sink.Append(o.stream, o.read.buf[:o.read.n])
	buffers.Put(o.read.buf)
	o.read.buf = nil
	if o.read.n == readSize && !o.full {
		o.grow()
	}
	return err == nil
}

// copyRest takes what was written before the cut. A writer that is still there
// gets no more than a full pipe accepted.
func (o *output) copyRest() {
	for total := 0; total < pipeSize; total += o.read.n {
		ready := false
		if err := o.conn.Control(func(fd uintptr) { ready = o.tryRead(fd) }); err != nil || !ready {
			return
		}
		if more := o.deliver(); !more {
			return
		}
	}
}

// grow makes the pipe larger, so that a busy child and its reader switch less.
func (o *output) grow() {
	o.full = true
	const more = pipeSize - readSize
	if o.stream == outlog.PTY {
		return
	}
	if o.budget.Add(-more) < 0 {
		o.budget.Add(more)
		return
	}
	grown := false
	o.conn.Control(func(fd uintptr) { grown = growPipe(fd, pipeSize) })
	if !grown {
		o.budget.Add(more)
		return
	}
	o.grown = more
}

// cutAfter ends the output in d if it has not ended by itself.
func (o *output) cutAfter(d time.Duration) { o.file.SetReadDeadline(time.Now().Add(d)) }

// close gives everything back. copy has returned.
func (o *output) close() {
	o.file.Close()
	o.budget.Add(o.grown)
	o.grown = 0
}
