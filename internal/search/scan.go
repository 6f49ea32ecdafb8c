package search

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/wire"
)

// ErrTooFast means that output was dropped faster than it could be searched.
var ErrTooFast = errors.New("output is forgotten faster than it can be searched")

// tries is how often a search begins again, each time nearer to the end, when
// entries that it was about to read were dropped.
const tries = 4

// Run searches the output that the log has at the time of the call, until the
// deadline. It returns the cause of ctx when that ends, outlog.ErrEnded when the
// log does.
func Run(ctx context.Context, log *outlog.Log, q Query, deadline time.Time) (wire.SearchResult, error) {
	for try := range uint64(tries) {
		stats := log.Stats()
		first := stats.First + (stats.Next-stats.First)*try/tries
		s := &scan{query: q, ctx: ctx, deadline: deadline}
		s.result.FirstSeq, s.result.Evicted = first, first > 1
		err := s.run(log, first, stats.Next-1)
		if !errors.Is(err, outlog.ErrEvicted) {
			return s.result, err
		}
	}
	return wire.SearchResult{}, ErrTooFast
}

// streams is the size of an array that is indexed by Stream.
const streams = int(outlog.PTY) + 1

// A scan is one pass over the log.
type scan struct {
	query    Query
	ctx      context.Context // of the request: a scan does not outlive Run
	deadline time.Time
	result   wire.SearchResult

	began  uint64 // lines that have begun so far
	tracks [streams]track
	size   int // bytes of the texts in the result
	ticks  int
	over   bool // no further line is needed
}

// A track is the state of one stream.
type track struct {
	open    *openLine // the line that has begun and not ended
	current openLine
	spare   []byte            // memory for the next line
	before  []wire.SearchLine // the last lines that did not match, oldest first
	after   int               // how many of the next lines to show as context
}

// An openLine is a line that is being assembled.
type openLine struct {
	number, seq uint64
	stream      outlog.Stream
	wanted      bool   // it is in the range of the query
	text        []byte // at most MaxLineSearched bytes of it
	length      int    // of the whole line
	long        bool   // the line is longer than text
}

func (s *scan) run(log *outlog.Log, first, last uint64) error {
	cursor := log.Cursor(first - 1)
	var err error
	if first > last { // the log is empty or has ended
		err = log.Cursor(last).Next(func(outlog.Entry) {})
	}
	for !s.over && cursor.Seq() < last {
		err = cursor.Next(func(e outlog.Entry) {
			if e.Kind == outlog.Output {
				s.add(e)
			}
		})
		if err != nil {
			break
		}
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		if cursor.Seq() < last {
			s.checkTime(true)
		}
	}
	if err != nil && !errors.Is(err, outlog.ErrNone) && !errors.Is(err, io.EOF) {
		return err
	}
	s.result.NextSeq = cursor.Seq() + 1
	s.finish(log.StateAt(last + 1).Closed)
	return nil
}

// finish checks the lines that have not ended, and sorts the answer.
func (s *scan) finish(closed bool) {
	var open []*openLine
	for i := range s.tracks {
		if l := s.tracks[i].open; l != nil {
			open = append(open, l)
		}
	}
	slices.SortFunc(open, func(a, b *openLine) int { return cmp.Compare(a.number, b.number) })
	for _, l := range open {
		if !s.over {
			s.tracks[l.stream].open = nil
			s.end(l, !closed)
		}
	}
	s.result.Searched = s.began
	lines := s.result.Lines
	sort.Slice(lines, func(i, j int) bool { return lines[i].Line < lines[j].Line })
}

// add splits the output of one entry into lines.
func (s *scan) add(e outlog.Entry) {
	t := &s.tracks[e.Stream]
	for data := e.Data; len(data) > 0 && !s.over; {
		if t.open == nil {
			if s.began >= s.query.to && !s.pending() {
				s.over = true
				return
			}
			s.began++
			t.current = openLine{number: s.began, seq: e.Seq, stream: e.Stream, wanted: s.wants(e.Stream, s.began), text: t.spare[:0]}
			t.open = &t.current
		}
		l := t.open
		end := bytes.IndexByte(data, '\n')
		piece := data
		if end >= 0 {
			piece, data = data[:end], data[end+1:]
		} else {
			data = nil
		}
		if l.wanted {
			if l.length == 0 && end >= 0 {
				l.text = piece[:min(len(piece), wire.MaxLineSearched)] // the usual case: the line is in one piece
			} else {
				l.text = append(l.text, piece[:min(len(piece), wire.MaxLineSearched-len(l.text))]...)
				t.spare = l.text
			}
		}
		l.length += len(piece)
		if end >= 0 {
			t.open = nil
			s.end(l, false)
			s.checkTime(false)
		}
	}
}

func (s *scan) wants(stream outlog.Stream, number uint64) bool {
	return number >= s.query.from && number <= s.query.to && (s.query.stream == 0 || s.query.stream == stream)
}

// pending reports whether a line in the range of the query has not ended.
func (s *scan) pending() bool {
	return slices.ContainsFunc(s.tracks[:], func(t track) bool { return t.open != nil && t.open.wanted })
}

// end decides whether a complete line is part of the answer.
func (s *scan) end(l *openLine, open bool) {
	if !l.wanted {
		return
	}
	if l.long = l.length > len(l.text); l.long {
		s.result.LongLines++
	} else if !open {
		l.text = bytes.TrimSuffix(l.text, []byte("\r")) // terminals end lines with \r\n
	}
	t := &s.tracks[l.stream]
	where := s.query.match(l.text)
	shown := wire.SearchLine{Line: l.number, Seq: l.seq, Stream: l.stream.String(), Match: where != nil, Open: open}
	switch {
	case where != nil && s.result.Matches == uint64(s.query.matches):
		s.stop(wire.TruncatedMatches, l.number)
	case where != nil:
		shown = withText(shown, l, where)
		if s.show(l.number, append(t.before, shown)...) {
			s.result.Matches++
			t.before, t.after = t.before[:0], s.query.after
		}
	case t.after > 0:
		t.after--
		s.show(l.number, withText(shown, l, nil))
	case s.query.before > 0:
		if len(t.before) == s.query.before {
			t.before = slices.Delete(t.before, 0, 1)
		}
		t.before = append(t.before, withText(shown, l, nil))
	}
}

// show adds lines to the answer, all or none.
func (s *scan) show(number uint64, lines ...wire.SearchLine) bool {
	size := s.size
	for _, l := range lines {
		size += len(l.Text)
	}
	if size > wire.MaxSearchText {
		s.stop(wire.TruncatedSize, number)
		return false
	}
	s.size = size
	s.result.Lines = append(s.result.Lines, lines...)
	return true
}

// timeStep is how many lines are searched between two checks of the time.
const timeStep = 64

func (s *scan) checkTime(now bool) {
	if s.ticks++; (now || s.ticks%timeStep == 0) && !s.over && time.Now().After(s.deadline) {
		s.stop(wire.TruncatedTime, s.began+1)
	}
}

// stop ends the scan before the line with this number. A client that continues
// there, or at an earlier line that has not ended, misses nothing.
func (s *scan) stop(why string, number uint64) {
	for _, t := range s.tracks {
		if t.open != nil && t.open.wanted {
			number = min(number, t.open.number)
		}
	}
	s.over, s.result.Truncated, s.result.NextLine = true, &why, &number
}

// matchLead is how many bytes are shown before a match that is far inside a long
// line.
const matchLead = wire.MaxLineText / 4

// withText adds the part of a line that is shown: its beginning, or the part around
// the match.
func withText(shown wire.SearchLine, l *openLine, match []int) wire.SearchLine {
	start, end := 0, min(len(l.text), wire.MaxLineText)
	if match != nil && match[1] > end {
		start = max(0, min(match[0]-matchLead, len(l.text)-wire.MaxLineText))
		for start < len(l.text) && !utf8.RuneStart(l.text[start]) {
			start++
		}
		end = min(len(l.text), start+wire.MaxLineText)
	}
	for end < len(l.text) && end > start && !utf8.RuneStart(l.text[end]) {
		end--
	}
	shown.Text, shown.Offset = string(l.text[start:end]), uint64(start)
	shown.Cut = start > 0 || end < len(l.text) || l.long
	return shown
}
