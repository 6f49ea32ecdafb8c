package mcprelay

import (
	"bytes"
	"fmt"
)

// The longest lines; a longer one ends the transport.
const (
	maxStdoutLine = 8 << 20
	maxStderrLine = 1 << 20

	// maxClientLine bounds a line of the client. Servers may accept less.
	maxClientLine = 64 << 20
)

// A splitter splits a stream, which arrives in pieces, into lines.
type splitter struct {
	source string // for the error
	limit  int    // of a line, in bytes
	rest   []byte // the beginning of a line that has not ended
}

// feed calls f with each line that ends in this piece, without its line end. f may keep the
// lines; they share memory with the piece.
func (s *splitter) feed(piece []byte, f func(line []byte) error) error {
	for {
		line, rest, ended := bytes.Cut(piece, []byte("\n"))
		if len(s.rest)+len(line) > s.limit {
			return fmt.Errorf("%s line is longer than %d bytes", s.source, s.limit)
		}
		if len(s.rest) > 0 || !ended {
			s.rest = append(s.rest, line...)
			line = s.rest
		}
		if !ended {
			return nil
		}
		s.rest, piece = nil, rest
		if err := f(bytes.TrimSuffix(line, []byte("\r"))); err != nil {
			return err
		}
	}
}

// end calls f with the last line, if it has no line end.
func (s *splitter) end(f func(line []byte) error) error {
	line := s.rest
	s.rest = nil
	if len(line) == 0 {
		return nil
	}
	return f(bytes.TrimSuffix(line, []byte("\r")))
}
