package terminal

import (
	"io"
	"strings"
)

const (
	// columnGap is the space between two columns.
	columnGap = 2

	// minLastColumn is the width of the last column on a terminal that is too narrow.
	minLastColumn = 20
)

// A Table is printed in columns.
type Table struct {
	to    io.Writer
	width int
	rows  [][]string
}

// NewTable makes a table with a row of headings. The last column is cut so that rows have no more
// than width cells; 0: nothing is cut.
func NewTable(to io.Writer, width int, headings ...string) *Table {
	t := &Table{to: to, width: width}
	t.Row(headings...)
	return t
}

// Row adds a row, which has as many cells as there are headings.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Printable(c)
	}
	t.rows = append(t.rows, row)
}

// Flush prints the table.
func (t *Table) Flush() error {
	last := len(t.rows[0]) - 1
	widths, total := make([]int, last), 0
	for i := range widths {
		for _, row := range t.rows {
			widths[i] = max(widths[i], Width(row[i])+columnGap)
		}
		total += widths[i]
	}
	room := 0
	if t.width > 0 {
		room = max(minLastColumn, t.width-total)
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, width := range widths {
			b.WriteString(row[i] + strings.Repeat(" ", width-Width(row[i])))
		}
		b.WriteString(Cut(row[last], room) + "\n")
	}
	_, err := io.WriteString(t.to, b.String())
	return err
}
