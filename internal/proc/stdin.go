package proc

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// stdinQueueLimit limits the input that is accepted but not yet read by the child.
// A single larger write is accepted when the queue is empty.
const stdinQueueLimit = 1 << 20

// stdin writes to a pipe or a terminal without ever making a caller wait. While the
// child keeps up, a write is one system call by the caller. Only while the child
// does not, a goroutine writes the queue.
type stdin struct {
	file *os.File
	conn syscall.RawConn
	tty  bool // the file is shared with the output and not closed here

	pump sync.WaitGroup // at most one goroutine

	mu       sync.Mutex
	queue    []chunk // oldest first
	accepted int     // how many of them, from the oldest on, are accepted
	bytes    int     // of the accepted chunks
	busy     bool    // a caller or the pump writes to the file
	finished bool    // the file is closed when the queue is empty; no more writes
	err      error   // why no more writes are accepted; the first reason stays
}

// A chunk is a piece of input; done is nil once it is accepted.
type chunk struct {
	data []byte
	done func(error)
}

func newStdin(file *os.File, tty bool) *stdin {
	conn, err := file.SyscallConn()
	if err != nil { // only a nil file fails
		panic(err)
	}
	return &stdin{file: file, conn: conn, tty: tty}
}

func (s *stdin) write(b []byte, _ func(uint64) error, done func(error)) {
	s.mu.Lock()
	if err := s.refusalLocked(); err != nil {
		s.mu.Unlock()
		done(err)
		return
	}
	if s.busy {
		s.queue = append(s.queue, chunk{b, done})
		accepted := s.acceptLocked()
		s.mu.Unlock()
		call(accepted, nil)
		return
	}
	s.busy = true // no other write overtakes this one
	s.mu.Unlock()

	n, err := s.tryWrite(b)

	s.mu.Lock()
	var refused []chunk
	switch {
	case err != nil:
		refused = s.failLocked(ErrStdinClosed)
		err = s.err
	case n < len(b) && s.err != nil:
		err = s.err
	case n < len(b):
		s.queue = append([]chunk{{data: b[n:]}}, s.queue...)
		s.accepted++
		s.bytes += len(b) - n
	}
	s.continueLocked()
	s.mu.Unlock()
	done(err)
	call(refused, ErrStdinClosed)
}

func call(chunks []chunk, err error) {
	for _, c := range chunks {
		c.done(err)
	}
}

func (s *stdin) refusalLocked() error {
	if s.err == nil && s.finished {
		return ErrStdinClosed
	}
	return s.err
}

// acceptLocked accepts as many chunks as the limit allows and returns those whose
// done has to be called.
func (s *stdin) acceptLocked() (accepted []chunk) {
	for s.accepted < len(s.queue) {
		c := &s.queue[s.accepted]
		if s.bytes > 0 && s.bytes+len(c.data) > stdinQueueLimit {
			break
		}
		s.accepted++
		s.bytes += len(c.data)
		accepted = append(accepted, *c)
		c.done = nil
	}
	return accepted
}

// continueLocked is called by a writer that is done with the file: it starts the
// pump if there is more to write.
func (s *stdin) continueLocked() {
	if s.err == nil && len(s.queue) > 0 {
		s.pump.Go(s.run) // ends with the queue; close waits for it
		return
	}
	s.busy = false
	if s.finished {
		s.closeFileLocked()
	}
}

// run writes the queue and waits for the child in the poller.
func (s *stdin) run() {
	for {
		s.mu.Lock()
		if s.err != nil || len(s.queue) == 0 {
			s.continueLocked()
			s.mu.Unlock()
			return
		}
		data := s.queue[0].data
		s.mu.Unlock()

		n, err := s.waitWrite(data)

		s.mu.Lock()
		var told []chunk
		if err != nil {
			told = s.failLocked(ErrStdinClosed)
			s.mu.Unlock()
			call(told, ErrStdinClosed)
			continue
		}
		if s.err == nil {
			told = s.writtenLocked(n)
		}
		s.mu.Unlock()
		call(told, nil)
	}
}

// writtenLocked removes n bytes from the oldest chunk.
func (s *stdin) writtenLocked(n int) (accepted []chunk) {
	s.bytes -= n
	if s.queue[0].data = s.queue[0].data[n:]; len(s.queue[0].data) == 0 {
		s.queue[0] = chunk{}
		s.queue = s.queue[1:]
		s.accepted--
	}
	if len(s.queue) == 0 {
		s.queue = nil // an idle process keeps no memory
	}
	return s.acceptLocked()
}

// failLocked refuses all further input and drops the queue. It returns the chunks
// whose done was not called yet.
func (s *stdin) failLocked(err error) (refused []chunk) {
	if s.err != nil {
		return nil
	}
	s.err = err
	refused = s.queue[s.accepted:]
	s.queue, s.accepted, s.bytes = nil, 0, 0
	return refused
}

// end refuses all further input because of err. It does not wait.
func (s *stdin) end(err error) {
	s.mu.Lock()
	refused := s.failLocked(err)
	s.mu.Unlock()
	s.file.SetWriteDeadline(time.Unix(1, 0)) // wakes the pump
	call(refused, err)
}

// close waits for the pump and closes a pipe. The child has exited.
func (s *stdin) close() {
	s.end(ErrStdinClosed)
	s.pump.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeFileLocked()
}

func (s *stdin) closeFileLocked() {
	if !s.tty {
		s.file.Close() // closing twice is harmless
	}
}

// finish closes the input after the queued bytes.
func (s *stdin) finish(func(uint64) error) error {
	if s.tty {
		return s.typeEOF()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.finished = true
	if !s.busy {
		s.closeFileLocked()
	}
	return nil
}

func (s *stdin) typeEOF() error {
	char, ok := byte(0), false
	if err := s.conn.Control(func(fd uintptr) { char, ok = eofChar(fd) }); err != nil {
		return ErrStdinClosed
	}
	if !ok {
		return ErrNoEOF
	}
	s.mu.Lock()
	err := s.refusalLocked()
	s.mu.Unlock()
	if err == nil {
		s.write([]byte{char}, nil, func(error) {}) // in order, when there is room
	}
	return err
}

// tryWrite writes as much as the file accepts at once. An error means that no
// process reads.
func (s *stdin) tryWrite(b []byte) (n int, err error) {
	return s.writeFile(b, true)
}

// waitWrite waits until the file accepts some of b.
func (s *stdin) waitWrite(b []byte) (n int, err error) {
	return s.writeFile(b, false)
}

func (s *stdin) writeFile(b []byte, once bool) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	waitErr := s.conn.Write(func(fd uintptr) bool {
		n, err = writeDescriptor(fd, b)
		return once || !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case errors.Is(err, syscall.EAGAIN):
		return 0, nil
	}
	return n, err
}
