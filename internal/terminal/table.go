package terminal

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A Table is printed in columns.
type Table struct{ w *tabwriter.Writer }

func NewTable(w io.Writer, headings ...string) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.Row(headings...)
	return t
}

func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = Printable(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t *Table) Flush() error { return t.w.Flush() }
