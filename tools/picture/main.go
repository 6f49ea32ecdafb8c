// Command picture makes a moving picture (SVG) of a command on another machine whose connection is cut and mended. It needs
// what `tether logs --follow --json` has printed of two processes: of the terminal of the person, and of the command on the other machine.
// It fails if the terminal does not show each line of the command once and in order.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("picture: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	fs := flag.NewFlagSet("picture", flag.ContinueOnError)
	terminal := fs.String("terminal", "", "`FILE` with the output of the terminal")
	command := fs.String("command", "", "`FILE` with the output of the command")
	cut := fs.Int64("cut", 0, "when the cable was pulled out, in Unix `MILLISECONDS`")
	mended := fs.Int64("mended", 0, "when it was put back, in Unix `MILLISECONDS`")
	cols := fs.Int("cols", 80, "columns of the terminal")
	rows := fs.Int("rows", 18, "rows of the terminal")
	out := fs.String("out", "", "`FILE` for the picture")
	if err := fs.Parse(args); err != nil {
		return err
	}
	here, err := readFile(*terminal)
	if err != nil {
		return err
	}
	there, err := readFile(*command)
	if err != nil {
		return err
	}
	f, err := newFilm(here, there, *cols, *rows, *cut, *mended)
	if err != nil {
		return err
	}
	return os.WriteFile(*out, []byte(f.svg()), 0o644)
}

// An output is something that a process has printed, and when.
type output struct {
	at   int64 // in Unix milliseconds
	text string
}

func readFile(name string) ([]output, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	list, err := readLog(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

// readLog reads what `tether logs --json` has printed. The log must be complete.
func readLog(r io.Reader) (list []output, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	ended := false
	for lines.Scan() {
		var e struct {
			TimeMs              int64
			Event, Text, Base64 string
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		switch e.Event {
		case "output":
			data, err := base64.StdEncoding.DecodeString(e.Base64)
			if err != nil {
				return nil, err
			}
			list = append(list, output{e.TimeMs, e.Text + string(data)})
		case "closed":
			ended = true
		case "gap":
			return nil, fmt.Errorf("output is missing")
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !ended || len(list) == 0 {
		return nil, fmt.Errorf("the log has no output, or no end")
	}
	return list, nil
}

// A film is what the picture shows, by the time since its beginning.
type film struct {
	cols, rows  int
	length      time.Duration
	cut, mended time.Duration
	versions    []version       // of lines, in the order in which they appear
	tops        []moment        // the first visible line
	cursors     []moment        // places
	printed     []time.Duration // when each line of the command was printed there
	arrived     []time.Duration // and when it was on the terminal here
}

// A version is how a line looked for a while.
type version struct {
	line     int
	cells    []cell
	from, to time.Duration // to is 0 if it stayed
}

// A moment is a number that changes.
type moment struct {
	at    time.Duration
	value int
}

const (
	lead  = 500 * time.Millisecond // before the first output
	pause = 5 * time.Second        // after the last one
)

// place is the place of the cursor as one number.
func place(s *screen) int { return s.row*1000 + s.col }

func newFilm(here, there []output, cols, rows int, cut, mended int64) (*film, error) {
	first := here[0].at
	since := func(ms int64) time.Duration { return lead + time.Duration(ms-first)*time.Millisecond }
	f := &film{cols: cols, rows: rows, cut: since(cut), mended: since(mended), length: since(here[len(here)-1].at) + pause}
	if f.cut < 0 || f.mended <= f.cut || f.mended >= f.length {
		return nil, fmt.Errorf("the cable was pulled out after %v and put back after %v, but the picture has %v", f.cut, f.mended, f.length)
	}
	f.tops, f.cursors = []moment{{0, 0}}, []moment{{0, 0}}
	s := newScreen(cols, rows)
	for _, o := range here {
		if err := s.write(o.text); err != nil {
			return nil, err
		}
		f.note(s, since(o.at))
	}
	return f, f.compare(s, there, since)
}

// note records what has changed on the screen.
func (f *film) note(s *screen, at time.Duration) {
	current := map[int]*version{}
	for i := range f.versions {
		if v := &f.versions[i]; v.to == 0 {
			current[v.line] = v
		}
	}
	for line, cells := range s.lines {
		v := current[line]
		delete(current, line)
		switch {
		case v != nil && show(v.cells) == show(cells), v == nil && show(cells) == "":
			continue
		case v != nil:
			v.to = at
		}
		if show(cells) != "" {
			f.versions = append(f.versions, version{line: line, cells: append([]cell(nil), cells...), from: at})
		}
	}
	for _, v := range current { // lines that were erased
		v.to = at
	}
	f.tops = change(f.tops, at, s.top)
	f.cursors = change(f.cursors, at, place(s))
}

func change(list []moment, at time.Duration, value int) []moment {
	if list[len(list)-1].value == value {
		return list
	}
	return append(list, moment{at, value})
}

// show returns cells as text, with their styles.
func show(cells []cell) string {
	var b strings.Builder
	for _, c := range cells {
		fmt.Fprintf(&b, "%c%d", c.char, c.style)
	}
	return strings.TrimSuffix(b.String(), " 0")
}

// text returns the characters of cells.
func text(cells []cell) string {
	var b strings.Builder
	for _, c := range cells {
		b.WriteRune(c.char)
	}
	return strings.TrimRight(b.String(), " ")
}

// compare finds out when each line of the command was printed there, and when it arrived here. Each line must be on the screen once,
// and in order.
func (f *film) compare(s *screen, there []output, since func(int64) time.Duration) error {
	var whole strings.Builder
	for _, o := range there {
		whole.WriteString(o.text)
		for range strings.Count(o.text, "\n") {
			f.printed = append(f.printed, since(o.at))
		}
	}
	plain := newScreen(s.cols, s.rows) // tabs and the ends of lines look alike on both
	if err := plain.write(strings.ReplaceAll(whole.String(), "\n", "\r\n")); err != nil {
		return err
	}
	last := -1
	for _, cells := range plain.lines {
		line, found := text(cells), 0
		if line == "" {
			continue
		}
		for i, other := range s.lines {
			if text(other) == line {
				if found++; i <= last {
					return fmt.Errorf("the line %q is not in order", line)
				}
				last = i
			}
		}
		if found != 1 {
			return fmt.Errorf("the line %q is %d times on the terminal", line, found)
		}
		for _, v := range f.versions {
			if v.line == last && text(v.cells) == line {
				f.arrived = append(f.arrived, v.from)
				break
			}
		}
	}
	if len(f.arrived) != len(f.printed) {
		return fmt.Errorf("%d lines were printed, and %d have arrived", len(f.printed), len(f.arrived))
	}
	return nil
}
