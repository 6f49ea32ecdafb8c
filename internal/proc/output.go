package proc

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
)

const (
	// readSize is the most that one read takes: the usual capacity of a pipe, and
	// the largest entry of a log.
	readSize = 64 << 10
	// pipeSize is the size that a pipe is grown to, once, after a read of readSize.
	pipeSize = 256 << 10
	// pipeGrowthTotal limits the growth of all pipes of a supervisor: it is kernel
	// memory.
	pipeGrowthTotal = 32 << 20
)

// buffers are in use only between a read and its append, never while a reader
// waits.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// endpoint is this side's end of an output.
type endpoint struct {
	stream outlog.Stream
	file   *os.File
}

// An output carries one stream to the sink.
type output struct {
	endpoint
	conn    syscall.RawConn
	sink    Sink
	filler  Filler          // the sink, if it takes the output itself; nil: it does not
	between *outlog.Between // for the terminal of a filler; nil: none
	budget  *atomic.Int64
	take    func(fd uintptr) bool // o.takeReady, bound once

	over atomic.Bool // nothing more is read

	// turn is held from a read to its append, so that the output of the two readers, copy
	// and copyRest, keeps its order. If the sink is full, the holder may wait for hours:
	// only the other reader may wait for turn.
	turn  sync.Mutex
	grown int64 // bytes taken from the budget; guarded by turn
	full  bool  // growth was tried; guarded by turn
}

func newOutput(s *Supervisor, end endpoint, sink Sink, between *outlog.Between) *output {
	conn, err := end.file.SyscallConn()
	if err != nil { // only a nil file fails
		panic(err)
	}
	o := &output{endpoint: end, conn: conn, sink: sink, filler: filler(sink), between: between, budget: &s.pipeBudget}
	o.take = o.takeReady
	return o
}

// copy runs until the output ends or is cut, or the sink refuses output. Nothing is
// read after it.
func (o *output) copy() {
	defer o.end()
	for !o.over.Load() {
		err := o.conn.Read(o.take)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.copyRest()
		}
		if err != nil {
			return
		}
	}
}

// end returns when the other reader has appended the bytes that it has read.
func (o *output) end() {
	o.turn.Lock()
	defer o.turn.Unlock()
	o.over.Store(true)
}

// takeReady passes the bytes that can be read now to the sink, at most readSize. It
// reports false if it has to be called again when there is more. Small pieces are
// collected as long as the next one can be read at once.
func (o *output) takeReady(fd uintptr) bool {
	o.turn.Lock()
	defer o.turn.Unlock()
	if o.over.Load() {
		return true
	}
	total, err := o.pass(fd)
	switch {
	case err == nil:
		if total == readSize && !o.full {
			o.grow(fd)
		}
		return true // there may be more, but check the deadline first
	case errors.Is(err, syscall.EAGAIN):
		return false
	}
	o.over.Store(true)
	return true
}

// pass passes the bytes that can be read now to the sink, at most readSize. The error is nil if
// there may be more. It is EAGAIN, or the end of the output: a terminal ends with an error,
// a pipe with 0 bytes.
func (o *output) pass(fd uintptr) (total int, err error) {
	if o.filler != nil {
		return o.filler.Fill(o.stream, int(fd), o.between)
	}
	buf := buffers.Get().(*[readSize]byte)
	defer buffers.Put(buf)
	for total < readSize && err == nil {
		var n int
		if n, err = readDescriptor(fd, buf[total:]); n > 0 {
			total += n
		} else if err == nil {
			err = io.EOF
		}
	}
	if total > 0 {
		if sinkErr := o.sink.Append(o.stream, buf[:total]); sinkErr != nil {
			return total, sinkErr
		}
	}
	return total, err
}

// copyRest passes the bytes that are in the pipe to the sink, for example before a cut or
// an exit. It may run concurrently with copy. If a process goes on writing, copyRest ends
// after the size of a full pipe.
func (o *output) copyRest() {
	for total := 0; total < pipeSize && !o.over.Load(); total += readSize {
		more := false
		if err := o.conn.Control(func(fd uintptr) { more = o.takeReady(fd) }); err != nil || !more {
			return
		}
	}
}

// grow makes the pipe larger, so that a busy child and its reader switch less
// often.
func (o *output) grow(fd uintptr) {
	o.full = true
	const more = pipeSize - readSize
	if o.stream == outlog.PTY {
		return
	}
	if o.budget.Add(-more) < 0 {
		o.budget.Add(more)
		return
	}
	if !growPipe(fd, pipeSize) {
		o.budget.Add(more)
		return
	}
	o.grown = more
}

// cutAfter ends the output after d if it has not ended by itself.
func (o *output) cutAfter(d time.Duration) { o.file.SetReadDeadline(time.Now().Add(d)) }

// close gives back all resources. copy has returned.
func (o *output) close() {
	o.file.Close()
	closeBetween(o.between)
	o.budget.Add(o.grown)
	o.grown = 0
}
