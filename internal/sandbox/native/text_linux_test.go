package native

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// String returns the script as text that does not change without need and is the same for all processors: a line for
// each record, in groups that fail as one. Cells are numbered as they appear.
func (s *Script) String() string {
	w := &writer{script: s, names: make(map[uint64]int), constants: make(map[uint64]string)}
	for text, at := range s.texts {
		w.constants[uint64(at)] = text
	}
	marked := make(map[int][]int)
	for l, at := range s.labels {
		if at >= 0 {
			marked[at] = append(marked[at], l)
		}
	}
	last := -1
	for i := range s.records {
		r := &s.records[i]
		if r.step != last {
			last = r.step
			fmt.Fprintf(w, "# %v\n", s.steps[last])
		}
		for _, l := range marked[i] {
			fmt.Fprintf(w, "%v:\n", label(l))
		}
		w.line(r)
	}
	return w.String()
}

func (l label) String() string { return fmt.Sprintf("L%d", int(l)) }

// A writer writes a script as text.
type writer struct {
	strings.Builder
	script    *Script
	names     map[uint64]int
	constants map[uint64]string
}

func (w *writer) cell(n uint64) string {
	if _, ok := w.names[n]; !ok {
		w.names[n] = len(w.names) + 1
	}
	return fmt.Sprintf("c%d", w.names[n])
}

func (w *writer) line(r *record) {
	w.WriteByte('\t')
	if r.result != 0 {
		w.WriteString(w.cell(uint64(r.result)) + " = ")
	}
	w.WriteString(callName(r.call))
	used := len(r.args)
	for used > 0 && r.args[used-1] == (value{}) {
		used--
	}
	for _, a := range r.args[:used] {
		w.WriteString(" " + w.value(a))
	}
	if r.flags&mayFailFlag != 0 {
		w.WriteString(" (may fail)")
	}
	w.WriteByte('\n')
}

// constantText returns a string without its end, or other bytes as 64-bit numbers.
func constantText(t string) string {
	if name, ok := strings.CutSuffix(t, "\x00"); ok && !strings.Contains(name, "\x00") {
		return fmt.Sprintf("%q", name)
	}
	padded := []byte(t + "\x00\x00\x00\x00\x00\x00\x00")
	var numbers []string
	for ; len(padded) >= 8; padded = padded[8:] {
		numbers = append(numbers, fmt.Sprintf("%#x", binary.LittleEndian.Uint64(padded)))
	}
	return "{" + strings.Join(numbers, " ") + "}"
}

func (w *writer) value(v value) string {
	switch v.kind {
	case isAddress:
		if text, ok := w.constants[v.n]; ok {
			return constantText(text)
		}
		return "&" + w.cell(v.n)
	case isContent:
		return w.cell(v.n)
	case isLabel:
		return label(v.n).String()
	case isHeader:
		return fmt.Sprintf("header[%d]", v.n)
	}
	if int64(v.n) < 0 && int64(v.n) > -4096 {
		return fmt.Sprint(int64(v.n))
	}
	return fmt.Sprintf("%#x", v.n)
}
