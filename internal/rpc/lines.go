package rpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Lines is a Stream of one message per line.
type Lines struct {
	in       *bufio.Reader
	src      io.ReadCloser
	out      io.WriteCloser
	lastRead moment
	count    atomic.Uint64 // bytes that have arrived
	skip     bool          // lines that are not UTF-8
	foreign  int           // how many bytes of other text may still come before the first message
	room     *arrival      // nil: no limit but MaxMessage
}

// limit implements limited. A line cannot be evicted: a server on standard input has no
// other client.
func (s *Lines) limit(room *arrival) { s.room = room }

// SkipInvalid makes lines that are not valid UTF-8 be skipped; otherwise they end
// the stream. It is called before the first Read.
func (s *Lines) SkipInvalid() { s.skip = true }

// maxForeignText bounds what SkipForeignText skips.
const maxForeignText = 64 << 10

// SkipForeignText makes lines be skipped that come before the first message, which begins with a brace: what the start-up files
// of a shell have printed. It is called before the first Read.
func (s *Lines) SkipForeignText() { s.foreign = maxForeignText }

// NewLines returns a stream that reads lines from r and writes lines to w.
func NewLines(r io.ReadCloser, w io.WriteCloser) *Lines {
	s := &Lines{src: r, out: w}
	s.in = bufio.NewReaderSize(countedReader{s}, 64<<10)
	s.lastRead.begin()
	return s
}

// countedReader counts the bytes that arrive.
type countedReader struct{ s *Lines }

func (r countedReader) Read(p []byte) (int, error) {
	n, err := r.s.src.Read(p)
	r.s.count.Add(uint64(max(n, 0)))
	return n, err
}

// Read implements Stream. Blank lines are skipped. An unfinished last line is not a
// message.
func (s *Lines) Read() ([]byte, error) {
	for {
		line, err := s.line()
		if err != nil {
			return line, err
		}
		s.lastRead.note()
		if s.foreign > 0 && !bytes.HasPrefix(line, []byte("{")) {
			if s.foreign -= len(line) + 1; s.foreign <= 0 {
				return nil, errForeignText
			}
			s.room.drop()
			continue
		}
		s.foreign = 0
		valid := utf8.Valid(line)
		if !valid && !s.skip {
			return nil, violation(CloseBadData, "line is not valid UTF-8")
		}
		if valid && len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
		s.room.drop()
	}
}

// line reads a line. If there is no room for it, line keeps only its first headSize
// bytes.
func (s *Lines) line() ([]byte, error) {
	var line []byte
	size, refused := 0, false
	for {
		part, err := s.in.ReadSlice('\n')
		size += len(part)
		if !refused {
			// Room is taken by doubling, as memory is.
			if room := s.room.reserve(roomFor(size)); errors.Is(room, errRefused) {
				s.room.drop()
				refused, line = true, slices.Clone(line[:min(len(line), headSize)])
			} else if room != nil {
				return nil, room
			}
		}
		if !refused || len(line) < headSize {
			line = append(line, part...)
		}
		switch {
		case err == nil && refused && size <= MaxMessage+2:
			return line[:min(len(line), headSize)], errRefused
		case err == nil:
			line = bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
			if len(line) > MaxMessage || refused {
				return nil, errTooLong
			}
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case size > MaxMessage+1:
			return nil, errTooLong
		}
	}
}

// roomFor is the room for a line of which size bytes have arrived.
func roomFor(size int) int {
	if size <= smallMessage {
		return size
	}
	return min(1<<bits.Len(uint(size-1)), MaxMessage)
}

var errTooLong = violation(CloseTooBig, fmt.Sprintf("line exceeds the limit of %d bytes", MaxMessage))

var errForeignText = violation(CloseBadData, fmt.Sprintf("more than %d bytes of other text come before its first message", maxForeignText))

// Open implements Stream.
func (s *Lines) Open(b []byte, _ int) []byte { return b }

// Seal implements Stream.
func (s *Lines) Seal(b []byte, _, _ int) []byte { return append(b, '\n') }

// Write implements Stream.
func (s *Lines) Write(b []byte) error {
	_, err := s.out.Write(b)
	return err
}

// TryWrite implements Stream: a pipe may always make us wait.
func (s *Lines) TryWrite([]byte) (int, error) { return 0, nil }

// WriteMessage implements Stream. It does not copy a large message to append the
// newline.
func (s *Lines) WriteMessage(msg []byte) error {
	if err := s.Write(msg); err != nil {
		return err
	}
	return s.Write([]byte{'\n'})
}

// WritePart implements Stream.
func (s *Lines) WritePart(part []byte, _, last bool) error {
	if last {
		part = append(part, '\n')
	}
	return s.Write(part)
}

// Control implements Stream: lines have no control frames.
func (s *Lines) Control(b []byte, _ Control, _ []byte) []byte { return b }

// OnControl implements Stream.
func (s *Lines) OnControl(func(Control, []byte)) {}

// LastRead implements Stream.
func (s *Lines) LastRead() time.Time { return s.lastRead.time() }

// Received implements Stream.
func (s *Lines) Received() uint64 { return s.count.Load() }

// Acknowledged implements Stream.
func (s *Lines) Acknowledged() uint64 { return 0 }

// Unacknowledged implements Stream.
func (s *Lines) Unacknowledged() bool { return false }

// CloseWrite implements Stream.
func (s *Lines) CloseWrite() error { return s.Close() }

// Drain implements Stream.
func (s *Lines) Drain() {}

// Close implements Stream.
func (s *Lines) Close() error { return errors.Join(s.src.Close(), s.out.Close()) }
