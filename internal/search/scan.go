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

// ErrTooFast means that output was forgotten faster than it could be searched.
var ErrTooFast = errors.New("output is forgotten faster than it can be searched")

// tries is how often a search begins anew when what it was about to look at was
// forgotten, each time nearer to the end.
const tries = 4

// Run looks through the output that is there when it is called, until the deadline.
// It returns the context's cause when that ends, outlog.ErrEnded when the log does.
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

// streams is how many there are, with room for number 0.
const streams = int(outlog.PTY) + 1

// A scan is one pass.
type scan struct {
	query    Query
	ctx      context.Context // of the one who asked: a scan does not outlive Run
	deadline time.Time
	result   wire.SearchResult

	began  uint64 // lines so far
	tracks [streams]track
	size   int // of the texts of the result
	ticks  int
	over   bool // nothing more is wanted
}

// A track is one stream.
type track struct {
	open    *line // has begun and not ended; it is current
	current line
	spare   []byte            // memory for the next one
	before  []wire.SearchLine // the last lines that were not wanted, oldest first
	after   int               // how many of the next ones are wanted
}

// A line is one that is being put together.
type line struct {
	number, seq uint64
	stream      outlog.Stream
	wanted      bool   // it is to be looked at
	text        []byte // at most MaxLineSearched
	length      int    // of all of it
	long        bool   // there is more than the text
}

func (s *scan) run(log *outlog.Log, first, last uint64) error {
	cursor := log.Cursor(first - 1)
	var err error
	if first > last { // nothing is there: never was, or the log has ended
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

// finish looks at the lines that have not ended, and puts the answer in order.
func (s *scan) finish(closed bool) {
	var open []*line
	for i := range s.tracks {
		if l := s.tracks[i].open; l != nil {
			open = append(open, l)
		}
	}
	slices.SortFunc(open, func(a, b *line) int { return cmp.Compare(a.number, b.number) })
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

// add takes the output of one event apart.
func (s *scan) add(e outlog.Entry) {
	t := &s.tracks[e.Stream]
	for data := e.Data; len(data) > 0 && !s.over; {
		if t.open == nil {
			if s.began >= s.query.to && !s.pending() {
				s.over = true
				return
			}
			s.began++
			t.current = line{number: s.began, seq: e.Seq, stream: e.Stream, wanted: s.wants(e.Stream, s.began), text: t.spare[:0]}
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
				l.text = piece[:min(len(piece), wire.MaxLineSearched)] // the usual case: nothing to put together
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

// pending reports whether a line that is wanted has not ended.
func (s *scan) pending() bool {
	return slices.ContainsFunc(s.tracks[:], func(t track) bool { return t.open != nil && t.open.wanted })
}

// end decides about a line.
func (s *scan) end(l *line, open bool) {
	if !l.wanted {
		return
	}
	if l.long = l.length > len(l.text); l.long {
		s.result.LongLines++
	} else if !open {
		l.text = bytes.TrimSuffix(l.text, []byte("\r")) // how a terminal ends lines
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

// timeStep is how many lines are looked at between two looks at the clock.
const timeStep = 64

func (s *scan) checkTime(now bool) {
	if s.ticks++; (now || s.ticks%timeStep == 0) && !s.over && time.Now().After(s.deadline) {
		s.stop(wire.TruncatedTime, s.began+1)
	}
}

// stop ends the scan before the line with this number: who goes on there, or with a
// line that has begun before and not ended, misses nothing.
func (s *scan) stop(why string, number uint64) {
	for _, t := range s.tracks {
		if t.open != nil && t.open.wanted {
			number = min(number, t.open.number)
		}
	}
	s.over, s.result.Truncated, s.result.NextLine = true, &why, &number
}

// matchLead is how much is shown before a match that lies deep in a long line.
const matchLead = wire.MaxLineText / 4

// withText adds the part of a line that is shown: its beginning, or what is around
// the match.
func withText(shown wire.SearchLine, l *line, match []int) wire.SearchLine {
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
