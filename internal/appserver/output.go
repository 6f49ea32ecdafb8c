package appserver

import (
	"unicode/utf8"

	"github.com/tetherexec/tether/internal/outlog"
)

// A stream is the state of one output.
type stream struct {
	limit     int64 // bytes that the client wants
	unlimited bool
	taken     int64 // bytes that were kept for it so far
	any       bool  // there was output
	full      bool  // the limit is reached
	ended     bool
	text      []byte // collected, unless it is streamed
}

func (p *process) of(s outlog.Stream) *stream {
	if s == outlog.Stderr {
		return &p.stderr
	}
	return &p.stdout
}

// Append implements proc.Sink. It keeps what the client wants and drops the rest,
// so that a command never waits because of output that is not delivered.
func (p *process) Append(from outlog.Stream, b []byte) error {
	s := p.of(from)
	p.mu.Lock()
	if s.full || p.state == over {
		p.mu.Unlock()
		return nil
	}
	s.any = true
	b = b[:s.room(len(b))]
	full := false
	if p.log == nil {
		if full = !p.conn.collect(len(b)); !full {
			s.text = append(s.text, b...)
		}
	}
	s.taken += int64(len(b))
	full = full || !s.unlimited && s.taken >= s.limit
	p.mu.Unlock()
	if p.log != nil && !p.notes.noDeltas {
		p.log.Append(from, b) // after an error the log is closed, because the client has left
	}
	if full { // only now: the end must not overtake the output
		p.mu.Lock()
		s.full = true
		p.mu.Unlock()
		p.settle()
		p.notes.wake()
	}
	return nil
}

// room is how many of n bytes the client wants.
func (s *stream) room(n int) int {
	if s.unlimited {
		return n
	}
	return int(min(int64(n), s.limit-s.taken))
}

// EndStream implements proc.StreamSink.
func (p *process) EndStream(from outlog.Stream) {
	p.mu.Lock()
	p.of(from).ended = true
	p.mu.Unlock()
	p.settle()
}

func (s *stream) done() bool { return s.ended || s.full }

// wanted is the collected text, in whole characters.
func (s *stream) wanted() []byte {
	if s.full {
		return wholeCharacters(s.text)
	}
	return s.text
}

// wholeCharacters removes a character at the end that was cut in two. Other invalid
// bytes stay.
func wholeCharacters(text []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		last := text[len(text)-i:]
		if utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

// collect reports whether n more bytes of output may be kept in memory.
func (c *conn) collect(n int) bool {
	if c.server.collected.Add(int64(n)) > c.server.maxCollected {
		c.server.collected.Add(-int64(n))
		return false
	}
	c.collected.Add(int64(n))
	return true
}

// forget is called when n bytes of output are no longer kept.
func (c *conn) forget(n int64) {
	c.collected.Add(-n)
	c.server.collected.Add(-n)
}
