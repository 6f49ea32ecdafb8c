package codexhome

import (
	"fmt"
	"slices"
	"strings"
)

// A table is a TOML table whose keys keep the order of the file: a client may start
// servers in that order.
//
// Values are *table, []any, string, or raw for values that need no interpretation.
type table struct {
	keys   []string
	values map[string]any
	origin origin
	lists  map[string]bool // keys of lists that headers such as [[x]] have made
}

// An origin says which part of a document made a table, and so which parts may add to it.
type origin uint8

const (
	implied origin = iota // by a longer header: [x.y] makes x; also the table of the whole document
	header                // by its own header, or an element of a list of tables
	dotted                // by a dotted key: x.y = 1 makes x
	inline                // by braces: it is complete
)

// Limits of a file. They bound the memory for its tables.
const (
	maxNesting = 64    // parts of a dotted key, and depth of nested values
	maxKeys    = 16384 // parts of keys, tables and lists
	maxValues  = 65536 // of any kind
)

var (
	errNesting = &syntaxError{line: 1, column: 1, message: fmt.Sprintf("nested more than %d levels deep", maxNesting)}
	errKeys    = &syntaxError{line: 1, column: 1, message: fmt.Sprintf("more than %d keys, tables and lists", maxKeys)}
	errValues  = &syntaxError{line: 1, column: 1, message: fmt.Sprintf("more than %d values", maxValues)}
)

// raw is a number, a boolean or a date as the file spells it.
type raw string

func newTable() *table { return tableFrom(implied) }

func tableFrom(o origin) *table { return &table{values: map[string]any{}, origin: o} }

func (t *table) set(key string, value any) {
	if _, ok := t.values[key]; !ok {
		t.keys = append(t.keys, key)
	}
	t.values[key] = value
}

// without returns the table without some keys.
func (t *table) without(keys ...string) *table {
	rest := newTable()
	for _, key := range t.keys {
		if !slices.Contains(keys, key) {
			rest.set(key, t.values[key])
		}
	}
	return rest
}

// keep returns the values that the paths name. If a path continues below a value
// that is not a table, the value is kept: its reader reports the error.
func (t *table) keep(paths [][]string) *table {
	whole := map[string]bool{}        // keys at the end of a path
	deeper := map[string][][]string{} // the rest of the other paths, by their first key
	for _, path := range paths {
		if len(path) == 1 {
			whole[path[0]] = true
		} else {
			deeper[path[0]] = append(deeper[path[0]], path[1:])
		}
	}
	kept := newTable()
	for _, key := range t.keys {
		if !whole[key] && deeper[key] == nil {
			continue
		}
		value := t.values[key]
		if sub, ok := value.(*table); ok && !whole[key] {
			value = sub.keep(deeper[key])
		}
		kept.set(key, value)
	}
	return kept
}

// A syntaxError says where a file is not TOML.
type syntaxError struct {
	line, column int
	text         string // the line
	message      string
}

func (e *syntaxError) Error() string { return e.message }

// excerpt is the error together with the line.
func (e *syntaxError) excerpt() string {
	number := fmt.Sprint(e.line)
	margin := strings.Repeat(" ", len(number))
	return fmt.Sprintf("TOML parse error at line %d, column %d\n%s |\n%s | %s\n%s | %s^\n%s\n",
		e.line, e.column, margin, number, e.text, margin, strings.Repeat(" ", max(e.column-1, 0)), e.message)
}
