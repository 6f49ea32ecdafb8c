package terminal

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
)

// Names of one, two or no cells per character.
var names = []string{
	"plain.txt",
	strings.Repeat("日本語の名前", 10) + ".tar.gz", // two cells each
	strings.Repeat("e\u0301", 60),            // a letter and a combining accent: one cell
	strings.Repeat("👩‍👩‍👧", 30),              // several characters, two cells
	strings.Repeat("🇩🇪", 40),
	strings.Repeat("한글 ", 30),
}

func TestCutCountsCells(t *testing.T) {
	t.Parallel()
	for _, try := range []struct {
		text  string
		width int
		want  string
	}{
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"日本語", 1, "…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"👩‍👩‍👧👩‍👩‍👧", 4, "👩‍👩‍👧👩‍👩‍👧"},
		{"👩‍👩‍👧👩‍👩‍👧", 3, "👩‍👩‍👧…"},
		{"日本語", 0, "日本語"},
	} {
		if got := Cut(try.text, try.width); got != try.want {
			t.Errorf("%q in %d cells: %q, not %q", try.text, try.width, got, try.want)
		}
	}
	for _, name := range names {
		for width := 1; width < 200; width++ {
			if got := Cut(name, width); uniseg.StringWidth(got) > width {
				t.Errorf("%q takes %d cells of %d", got, uniseg.StringWidth(got), width)
			}
		}
	}
}

// A status of any reason fits into one line, and is not cut without need.
func TestStatusFits(t *testing.T) {
	t.Parallel()
	for _, name := range append(names, strings.Repeat("é", 60)) {
		for width := 2; width < 200; width++ {
			if got := shorten(name, width); uniseg.StringWidth(got) > width {
				t.Errorf("%q takes %d cells of %d", got, uniseg.StringWidth(got), width)
			}
		}
	}
	for _, try := range []struct {
		text  string
		width int
		want  string
	}{
		{"connection lost", 15, "connection lost"},
		{"connection lost", 14, "connection lo…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 2, "…"},
	} {
		if got := shorten(try.text, try.width); got != try.want {
			t.Errorf("%q in %d cells: %q, not %q", try.text, try.width, got, try.want)
		}
	}
}

// The line is never wider than the terminal: a wider line would scroll it.
func TestProgressLineFits(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		var out bytes.Buffer
		p, _ := newClockedProgress(&out)
		p.Plan(3, 1<<30)
		p.Begin(name)
		for width := 1; width < 200; width++ {
			if line := p.line(width); uniseg.StringWidth(line) > width {
				t.Errorf("%d cells of %d: %q", uniseg.StringWidth(line), width, line)
			}
		}
		if line := p.line(90); !strings.Contains(line, "ETA -:--  "+Name(name)[:1]) {
			t.Errorf("the name is missing in %q", line)
		}
	}
}

// Columns begin at the same cell in each row, and the last one ends with the terminal.
func TestTableCountsCells(t *testing.T) {
	t.Parallel()
	const width = 100
	var out bytes.Buffer
	table := NewTable(&out, width, "NAME", "STATE", "COMMAND")
	for _, name := range names {
		table.Row(Cut(name, 40), "running", "|"+strings.Repeat(name, 3))
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	var begins []int
	for _, line := range lines[1:] {
		before, _, _ := strings.Cut(line, "running")
		begins = append(begins, uniseg.StringWidth(before))
		if w := uniseg.StringWidth(line); w > width {
			t.Errorf("%d cells of %d: %q", w, width, line)
		}
	}
	if begins = slices.Compact(begins); len(begins) != 1 || begins[0] != 40+2 {
		t.Errorf("the second column begins at %v", begins)
	}
}
