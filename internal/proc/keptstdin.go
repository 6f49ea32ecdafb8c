package proc

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/arena"
)

// keptStdin is a stdin whose accepted input outlives this program: it is in the slot of the process,
// and the kernel records how much of it was passed on.
type keptStdin struct {
	file *os.File
	conn syscall.RawConn
	tty  bool // the file is shared with the output and not closed here
	kept *kept

	pump sync.WaitGroup // at most one goroutine

	mu       sync.Mutex
	in       arena.Input
	waiting  []notedChunk // not accepted yet, oldest first
	busy     bool         // the pump runs
	finished bool         // the file is closed when all input was passed on; no more writes
	closed   bool
	trimmed  int64 // see arena.Input.Trim
	err      error // why no more writes are accepted; the first reason stays
}

// A notedChunk is a piece of input that waits to be accepted.
type notedChunk struct {
	data []byte
	note func(uint64) error
	done func(error)
}

// newKeptStdin continues with the input that is in the slot.
func newKeptStdin(file *os.File, tty bool, k *kept) *keptStdin {
	conn, err := file.SyscallConn()
	if err != nil { // only a nil file fails
		panic(err)
	}
	s := &keptStdin{file: file, conn: conn, tty: tty, kept: k, in: k.slot.Input(), finished: k.slot.InputClose.Load() != 0}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.continueLocked()
	return s
}

func (s *keptStdin) write(b []byte, note func(uint64) error, done func(error)) {
	s.mu.Lock()
	if err := s.refusalLocked(); err != nil {
		s.mu.Unlock()
		done(err)
		return
	}
	s.waiting = append(s.waiting, notedChunk{b, note, done})
	settled := s.acceptLocked()
	if !s.busy {
		if s.sendLocked() != nil {
			settled = s.failLocked(settled)
		}
		s.continueLocked()
	}
	s.mu.Unlock()
	settled.tell()
}

// outcomes are the results of writes, to be told without the lock.
type outcomes []outcome

type outcome struct {
	done func(error)
	err  error
}

func (all outcomes) tell() {
	for _, o := range all {
		o.done(o.err)
	}
}

func (s *keptStdin) refusalLocked() error {
	if s.err == nil && s.finished {
		return ErrStdinClosed
	}
	return s.err
}

// acceptLocked accepts as many chunks as the limit allows.
func (s *keptStdin) acceptLocked() (settled outcomes) {
	for s.err == nil && len(s.waiting) > 0 {
		c := s.waiting[0]
		pending := s.in.Pending()
		if pending > 0 && pending+len(c.data) > stdinQueueLimit {
			break
		}
		err := s.in.Accept(c.data, c.note)
		if errors.Is(err, arena.ErrFull) && pending > 0 {
			break // there is room once all was passed on
		}
		s.waiting[0] = notedChunk{}
		s.waiting = s.waiting[1:]
		settled = append(settled, outcome{c.done, err})
	}
	if len(s.waiting) == 0 {
		s.waiting = nil // an idle process keeps no memory
		s.recordFinishLocked()
	}
	return settled
}

// sendLocked passes on as much as the file takes now. An error means that no process reads.
func (s *keptStdin) sendLocked() (err error) {
	if s.err != nil || s.closed {
		return nil
	}
	waitErr := s.conn.Write(func(fd uintptr) bool {
		for s.in.Pending() > 0 && err == nil {
			_, err = s.in.Send(int(fd))
		}
		return true
	})
	s.trimmed = s.in.Trim(s.trimmed)
	if waitErr != nil {
		return waitErr
	}
	if errors.Is(err, syscall.EAGAIN) {
		return nil
	}
	return err
}

// continueLocked starts the pump if there is more to pass on, and ends the input if there is not.
func (s *keptStdin) continueLocked() {
	switch {
	case s.busy:
	case s.err == nil && !s.closed && (s.in.Pending() > 0 || len(s.waiting) > 0):
		s.busy = true
		s.pump.Go(s.run) // ends when all was passed on; close waits for it
	case s.finished:
		s.closeFileLocked()
	}
}

// run passes the input on and waits for the child in the poller.
func (s *keptStdin) run() {
	for {
		s.mu.Lock()
		if s.err != nil || s.in.Pending() == 0 && len(s.waiting) == 0 {
			s.busy = false
			s.continueLocked()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()

		var sendErr error
		waitErr := s.conn.Write(func(fd uintptr) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.err != nil || s.in.Pending() == 0 {
				return true
			}
			_, sendErr = s.in.Send(int(fd))
			return !errors.Is(sendErr, syscall.EAGAIN)
		})

		s.mu.Lock()
		s.trimmed = s.in.Trim(s.trimmed)
		var settled outcomes
		if waitErr != nil || sendErr != nil && !errors.Is(sendErr, syscall.EAGAIN) {
			settled = s.failLocked(nil)
		} else {
			settled = s.acceptLocked()
		}
		s.mu.Unlock()
		settled.tell()
	}
}

// failLocked refuses all further input because no process reads it, also that which was accepted by the
// same call.
func (s *keptStdin) failLocked(accepted outcomes) outcomes {
	refused := s.refuseLocked(ErrStdinClosed)
	for _, o := range accepted {
		refused = append(refused, outcome{o.done, ErrStdinClosed})
	}
	return refused
}

func (s *keptStdin) refuseLocked(err error) (refused outcomes) {
	if s.err == nil {
		s.err = err
	}
	for _, c := range s.waiting {
		refused = append(refused, outcome{c.done, err})
	}
	s.waiting = nil
	return refused
}

func (s *keptStdin) end(err error) {
	s.mu.Lock()
	refused := s.refuseLocked(err)
	s.mu.Unlock()
	s.file.SetWriteDeadline(time.Unix(1, 0)) // wakes the pump
	refused.tell()
}

func (s *keptStdin) close() {
	s.end(ErrStdinClosed)
	s.pump.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeFileLocked()
}

// closeFileLocked closes a pipe, also at the keeper: the child gets the end of its input when the
// last copy is closed.
func (s *keptStdin) closeFileLocked() {
	if s.tty || s.closed {
		return
	}
	s.closed = true
	s.file.Close()
	s.kept.keeper.Drop(Holder(s.kept.slot), HeldStdin)
}

func (s *keptStdin) finish(note func(uint64) error) error {
	if s.tty {
		return s.typeEOF(note)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.finished = true
	s.recordFinishLocked()
	s.continueLocked()
	if note == nil {
		return nil
	}
	return note(0)
}

// recordFinishLocked records that the input ends behind the accepted bytes, once all are accepted.
func (s *keptStdin) recordFinishLocked() {
	if closing := &s.kept.slot.InputClose; s.finished && len(s.waiting) == 0 && closing.Load() == 0 {
		closing.Store(1, pointClosing)
	}
}

func (s *keptStdin) typeEOF(note func(uint64) error) error {
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
		s.write([]byte{char}, note, func(error) {}) // in order, when there is room
	}
	return err
}
