package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLog(t *testing.T, c outlog.Config) *outlog.Log {
	log := outlog.New(outlog.NewPool(t.TempDir(), 1<<30), c)
	t.Cleanup(log.End)
	return log
}

func write(t *testing.T, log *outlog.Log, s outlog.Stream, text string) {
	t.Helper()
	if err := log.Append(s, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func ptr[T any](v T) *T { return &v }

// find searches with enough time.
func find(t *testing.T, log *outlog.Log, p wire.SearchParams) wire.SearchResult {
	t.Helper()
	q, err := NewQuery(&p)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), log, q, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// show formats lines as grep does.
func show(r wire.SearchResult) (list []string) {
	for _, l := range r.Lines {
		mark := "-"
		if l.Match {
			mark = ":"
		}
		if l.Open {
			mark += ">"
		}
		list = append(list, fmt.Sprintf("%d%s%s", l.Line, mark, l.Text))
	}
	return list
}

func expect(t *testing.T, r wire.SearchResult, want ...string) {
	t.Helper()
	if got := show(r); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLinesOfInterleavedStreams(t *testing.T) {
	log := newLog(t, outlog.Config{})
	write(t, log, outlog.Stdout, "first\nsec")
	write(t, log, outlog.Stderr, "oops\nwar")
	write(t, log, outlog.Stdout, "ond\nthi")
	write(t, log, outlog.Stderr, "ning\r\n\n")
	expect(t, find(t, log, wire.SearchParams{}), "1:first", "2:second", "3:oops", "4:warning", "5:>thi", "6:")
	expect(t, find(t, log, wire.SearchParams{Pattern: ptr("^second$|ing$")}), "2:second", "4:warning")
	expect(t, find(t, log, wire.SearchParams{Stream: ptr("stderr")}), "3:oops", "4:warning", "6:")
	expect(t, find(t, log, wire.SearchParams{FromLine: ptr(uint64(2)), ToLine: ptr(uint64(3))}), "2:second", "3:oops")
	expect(t, find(t, log, wire.SearchParams{Pattern: ptr("SECOND")}))
	expect(t, find(t, log, wire.SearchParams{Pattern: ptr("SECOND|Oops"), IgnoreCase: ptr(true)}), "2:second", "3:oops")
	expect(t, find(t, log, wire.SearchParams{Pattern: ptr("ning"), Before: ptr(uint64(5)), After: ptr(uint64(5))}), "3-oops", "4:warning", "6-")
	r := find(t, log, wire.SearchParams{Pattern: ptr("second")})
	if l := r.Lines[0]; l.Seq != 1 || l.Stream != "stdout" || r.NextSeq != 5 || r.FirstSeq != 1 || r.Evicted || r.Searched != 6 || r.Matches != 1 {
		t.Errorf("%+v", r)
	}
	log.Close()
	expect(t, find(t, log, wire.SearchParams{Pattern: ptr("thi")}), "5:thi") // the last line is complete because the log is closed
}

func TestContext(t *testing.T) {
	log := newLog(t, outlog.Config{})
	for i := range 30 {
		write(t, log, outlog.PTY, fmt.Sprintf("line %d\r\n", i+1))
	}
	r := find(t, log, wire.SearchParams{Pattern: ptr(" (10|12|20)$"), Before: ptr(uint64(2)), After: ptr(uint64(1))})
	expect(t, r, "8-line 8", "9-line 9", "10:line 10", "11-line 11", "12:line 12", "13-line 13", "18-line 18", "19-line 19", "20:line 20", "21-line 21")
}

func TestMoreMatchesThanWanted(t *testing.T) {
	log := newLog(t, outlog.Config{})
	write(t, log, outlog.Stdout, "open x")
	write(t, log, outlog.Stderr, "1x\n2\n3x\n4x\n5\n")
	r := find(t, log, wire.SearchParams{Pattern: ptr("x"), MaxMatches: ptr(uint64(2)), After: ptr(uint64(1))})
	expect(t, r, "2:1x", "3-2", "4:3x")
	if r.Truncated == nil || *r.Truncated != wire.TruncatedMatches || *r.NextLine != 1 { // the open line 1 may still match, so a client must ask for it again
		t.Errorf("%+v", r)
	}
	r = find(t, log, wire.SearchParams{Pattern: ptr("x"), MaxMatches: ptr(uint64(2)), Stream: ptr("stderr")})
	if r.Truncated == nil || *r.NextLine != 5 {
		t.Errorf("%+v", r)
	}
	expect(t, find(t, log, wire.SearchParams{Pattern: ptr("x"), FromLine: r.NextLine}), "5:4x")
	r = find(t, log, wire.SearchParams{Pattern: ptr("x"), MaxMatches: ptr(uint64(4))})
	if expect(t, r, "1:>open x", "2:1x", "4:3x", "5:4x"); r.Truncated != nil || r.NextLine != nil {
		t.Errorf("%+v", r)
	}
}

func TestLongLines(t *testing.T) {
	log := newLog(t, outlog.Config{})
	const lead = 50_001 // odd: the text must not begin in the middle of a character
	write(t, log, outlog.Stdout, "a"+strings.Repeat("é", lead/2)+"needle"+strings.Repeat("b", 100_000)+"lost\nshort\n")
	r := find(t, log, wire.SearchParams{Pattern: ptr("needle|short")})
	if len(r.Lines) != 2 || r.LongLines != 1 {
		t.Fatalf("%d lines, %+v", len(r.Lines), r.LongLines)
	}
	l := r.Lines[0]
	if !l.Cut || len(l.Text) > wire.MaxLineText || !strings.Contains(l.Text, "éneedleb") || int(l.Offset)+strings.Index(l.Text, "needle") != lead || !strings.HasPrefix(l.Text, "é") {
		t.Errorf("offset %d, cut %t, %q", l.Offset, l.Cut, l.Text)
	}
	if r := find(t, log, wire.SearchParams{Pattern: ptr("lost")}); r.Matches != 0 || r.LongLines != 1 {
		t.Errorf("%+v", r)
	}
	r = find(t, log, wire.SearchParams{ToLine: ptr(uint64(1))})
	if l := r.Lines[0]; l.Offset != 0 || len(l.Text) != wire.MaxLineText-1 || !l.Cut || r.Searched != 1 {
		t.Errorf("%+v", l)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	log := newLog(t, outlog.Config{})
	for range 2000 {
		write(t, log, outlog.Stdout, strings.Repeat("x", wire.MaxLineText)+"\n")
	}
	lines := uint64(0)
	for from := uint64(1); ; {
		r := find(t, log, wire.SearchParams{FromLine: &from, MaxMatches: ptr(uint64(1 << 40))})
		size := 0
		for _, l := range r.Lines {
			size += len(l.Text)
			if lines++; l.Line != lines {
				t.Fatalf("line %d, want %d", l.Line, lines)
			}
		}
		if size > wire.MaxSearchText || len(r.Lines) > wire.MaxMatches {
			t.Fatalf("%d lines with %d bytes", len(r.Lines), size)
		}
		if r.NextLine == nil {
			break
		}
		if *r.Truncated != wire.TruncatedSize {
			t.Fatal(*r.Truncated)
		}
		from = *r.NextLine
	}
	if lines != 2000 {
		t.Errorf("%d lines", lines)
	}
}

func TestForgottenOutput(t *testing.T) {
	log := newLog(t, outlog.Config{Retain: 1})
	for i := range 200_000 {
		write(t, log, outlog.Stdout, fmt.Sprintf("line %06d\n", i))
	}
	log.Sent(log.State().Next - 1)
	stats := log.Stats()
	r := find(t, log, wire.SearchParams{Pattern: ptr("199999"), Before: ptr(uint64(1))})
	if !r.Evicted || r.FirstSeq != stats.First || stats.First < 2 || len(r.Lines) != 2 || r.Lines[0].Text != "line 199998" {
		t.Errorf("%+v, %+v", r, stats)
	}
	if r := find(t, log, wire.SearchParams{Pattern: ptr("000000")}); len(r.Lines) != 0 {
		t.Errorf("%+v", r)
	}
}

// A search does not change the log: unsent output stays unsent, in memory and on
// disk.
func TestSearchDisturbsNothing(t *testing.T) {
	log := newLog(t, outlog.Config{})
	line := strings.Repeat("y", 99) + "\n"
	for range 50_000 {
		write(t, log, outlog.Stdout, line)
	}
	write(t, log, outlog.Stdout, "the end\n")
	before := log.Stats()
	if before.Spooled == 0 {
		t.Fatal("nothing is in the spool")
	}
	if r := find(t, log, wire.SearchParams{Pattern: ptr("^the")}); len(r.Lines) != 1 || r.Lines[0].Line != 50_001 {
		t.Errorf("%+v", r)
	}
	if after := log.Stats(); after != before {
		t.Errorf("%+v became %+v", before, after)
	}
}

func TestSearchEnds(t *testing.T) {
	log := newLog(t, outlog.Config{})
	for range 1000 {
		write(t, log, outlog.Stdout, strings.Repeat("a\n", 1000))
	}
	q, _ := NewQuery(&wire.SearchParams{Pattern: ptr("b")})
	r, err := Run(t.Context(), log, q, time.Now())
	if err != nil || r.Truncated == nil || *r.Truncated != wire.TruncatedTime || r.NextLine == nil || *r.NextLine != r.Searched+1 || r.Searched > 2*timeStep {
		t.Errorf("%+v, %v", r, err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := Run(ctx, log, q, time.Now().Add(time.Minute)); !errors.Is(err, gone) {
		t.Error(err)
	}
	log.End()
	if _, err := Run(t.Context(), log, q, time.Now().Add(time.Minute)); !errors.Is(err, outlog.ErrEnded) {
		t.Error(err)
	}
}

func TestPatterns(t *testing.T) {
	for pattern, want := range map[string]string{
		"(":                                  "invalid pattern: error parsing regexp: missing closing ): `(`",
		"a)(b":                               "invalid pattern: error parsing regexp: unexpected ): `a)(b`",
		strings.Repeat("a", 1025):            "pattern must have at most 1024 bytes",
		strings.Repeat(`(\pL{1,30}){30}`, 9): "pattern is too complex",
		`(\w{0,400}x){2}`:                    "",
	} {
		_, err := NewQuery(&wire.SearchParams{Pattern: &pattern, IgnoreCase: ptr(true)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%.40q: %v, want %s", pattern, err, want)
		}
	}
	if _, err := NewQuery(&wire.SearchParams{Stream: ptr("stdin")}); err == nil {
		t.Error("a search in stdin was accepted")
	}
}

// Property: however output is divided into entries and streams are mixed, the
// search finds the lines of each stream, in the order in which they began.
func FuzzLines(f *testing.F) {
	f.Add(uint64(1), []byte("one\ntwo\r\n\nthree"), []byte("x\nyy\n"))
	f.Add(uint64(7), []byte("\n\n\n"), []byte("a"))
	f.Fuzz(func(t *testing.T, seed uint64, out, stderr []byte) {
		if len(out)+len(stderr) > 10_000 {
			return
		}
		random := rand.New(rand.NewPCG(seed, 0))
		log := newLog(t, outlog.Config{})
		rest := map[outlog.Stream][]byte{outlog.Stdout: out, outlog.Stderr: stderr}
		var want []string
		open := map[outlog.Stream]int{} // index+1 of the line in want
		for len(rest[outlog.Stdout])+len(rest[outlog.Stderr]) > 0 {
			s := outlog.Stdout + outlog.Stream(random.IntN(2))
			n := min(random.IntN(5), len(rest[s]))
			piece := rest[s][:n]
			rest[s] = rest[s][n:]
			write(t, log, s, string(piece))
			for _, c := range piece {
				if open[s] == 0 {
					want = append(want, "")
					open[s] = len(want)
				}
				if c == '\n' {
					want[open[s]-1] = strings.TrimSuffix(want[open[s]-1], "\r")
					open[s] = 0
				} else {
					want[open[s]-1] += string([]byte{c})
				}
			}
			if random.IntN(3) == 0 {
				log.Cursor(log.State().Next - 2).Next(func(outlog.Entry) {}) // reading makes the entry final
			}
		}
		var got []string
		for from := uint64(1); ; {
			r := find(t, log, wire.SearchParams{FromLine: &from, MaxMatches: ptr(uint64(1000))})
			for _, l := range r.Lines {
				if int(l.Line) > len(got) {
					got = append(got, l.Text)
				}
			}
			if r.NextLine == nil || *r.NextLine <= from { // an open line is asked for again
				break
			}
			from = *r.NextLine
		}
		if len(want) < 500 && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
	})
}

func BenchmarkSearch(b *testing.B) {
	log := outlog.New(outlog.NewPool(b.TempDir(), 1<<30), outlog.Config{})
	defer log.End()
	block := bytes.Repeat([]byte("2026-01-01 12:00:00 something happened and this is what it was\n"), 1000)
	for range 500 {
		log.Append(outlog.Stdout, block)
	}
	b.SetBytes(int64(500 * len(block)))
	q := Query{pattern: regexp.MustCompile("error|panic"), from: 1, to: 1 << 60, matches: 10}
	for b.Loop() {
		if _, err := Run(b.Context(), log, q, time.Now().Add(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
}
