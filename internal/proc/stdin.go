package proc

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// stdinQueueLimit bounds the input that is accepted but not yet taken by the
// child. A single larger write is accepted when the queue is empty.
const stdinQueueLimit = 1 << 20

// stdin feeds a pipe or a terminal without ever making a writer wait. While the
// child keeps up, a write is one system call by the caller; a goroutine exists
// only while the child does not.
type stdin struct {
	file *os.File
	conn syscall.RawConn
	tty  bool // then the file is shared with the output and not closed here

	pump sync.WaitGroup // at most one

	mu       sync.Mutex
	queue    []chunk // oldest first
	accepted int     // how many of them, from the oldest on, are accepted
	bytes    int     // in the accepted ones
	busy     bool    // a write or the pump is at the file
	finished bool    // close when the queue is empty; no more writes
	err      error   // why no more writes are taken; the first reason stays
}

// A chunk is input; done is nil once it is accepted.
type chunk struct {
	data []byte
	done func(error)
}

func newStdin(file *os.File, tty bool) *stdin {
	conn, err := file.SyscallConn()
	if err != nil { // only a nil file has none
		panic(err)
	}
	return &stdin{file: file, conn: conn, tty: tty}
}

func (s *stdin) write(b []byte, done func(error)) {
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
	s.busy = true // nobody overtakes
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

// acceptLocked moves the border of the accepted chunks and returns those to be told.
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

// continueLocked hands the file from the caller, who was busy, to the pump if
// there is more to write, and else to nobody.
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

// run writes the queue, waiting for the child in the poller.
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

// writtenLocked takes n bytes off the oldest chunk.
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

// failLocked refuses all further input and drops what is queued. It returns the
// chunks that nobody was told about yet.
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
		s.file.Close() // a second time is harmless
	}
}

// finish promises the child that nothing follows what is queued.
func (s *stdin) finish() error {
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
		s.write([]byte{char}, func(error) {}) // in order, when there is room
	}
	return err
}

// tryWrite writes what the file takes at once. An error means that nobody reads.
func (s *stdin) tryWrite(b []byte) (n int, err error) {
	return s.writeFile(b, true)
}

// waitWrite waits until the file takes some of b.
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
