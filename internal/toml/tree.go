package toml

import (
	"fmt"
	"slices"
	"strings"
)

// A Table is a TOML table whose keys keep the order of the file: a client may start
// servers in that order.
//
// Values are *Table, []any, string, or Raw for values that need no interpretation.
type Table struct {
	Keys   []string
	Values map[string]any
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

// Limits of a document. They bound the memory for its tables.
const (
	MaxNesting = 64    // parts of a dotted key, and depth of nested values
	MaxKeys    = 16384 // parts of keys, tables and lists
	MaxValues  = 65536 // of any kind
)

var (
	errNesting = &SyntaxError{Line: 1, Column: 1, Message: fmt.Sprintf("nested more than %d levels deep", MaxNesting)}
	errKeys    = &SyntaxError{Line: 1, Column: 1, Message: fmt.Sprintf("more than %d keys, tables and lists", MaxKeys)}
	errValues  = &SyntaxError{Line: 1, Column: 1, Message: fmt.Sprintf("more than %d values", MaxValues)}
)

// Raw is a number, a boolean or a date as the file spells it.
type Raw string

// New returns an empty table.
func New() *Table { return tableFrom(implied) }

func tableFrom(o origin) *Table { return &Table{Values: map[string]any{}, origin: o} }

// Set gives a key a value. A key that the table does not have yet comes last.
func (t *Table) Set(key string, value any) {
	if _, ok := t.Values[key]; !ok {
		t.Keys = append(t.Keys, key)
	}
	t.Values[key] = value
}

// Without returns the table without some keys.
func (t *Table) Without(keys ...string) *Table {
	rest := New()
	for _, key := range t.Keys {
		if !slices.Contains(keys, key) {
			rest.Set(key, t.Values[key])
		}
	}
	return rest
}

// Keep returns the values that the paths name. If a path continues below a value
// that is not a table, the value is kept: its reader reports the error.
func (t *Table) Keep(paths [][]string) *Table {
	whole := map[string]bool{}        // keys at the end of a path
	deeper := map[string][][]string{} // the rest of the other paths, by their first key
	for _, path := range paths {
		if len(path) == 1 {
			whole[path[0]] = true
		} else {
			deeper[path[0]] = append(deeper[path[0]], path[1:])
		}
	}
	kept := New()
	for _, key := range t.Keys {
		if !whole[key] && deeper[key] == nil {
			continue
		}
		value := t.Values[key]
		if sub, ok := value.(*Table); ok && !whole[key] {
			value = sub.Keep(deeper[key])
		}
		kept.Set(key, value)
	}
	return kept
}

// A SyntaxError says where a file is not TOML.
type SyntaxError struct {
	Line, Column int
	Message      string
	text         string // the line
}

func (e *SyntaxError) Error() string { return e.Message }

// Excerpt is the error together with the line.
func (e *SyntaxError) Excerpt() string {
	number := fmt.Sprint(e.Line)
	margin := strings.Repeat(" ", len(number))
	return fmt.Sprintf("TOML parse error at line %d, column %d\n%s |\n%s | %s\n%s | %s^\n%s\n",
		e.Line, e.Column, margin, number, e.text, margin, strings.Repeat(" ", max(e.Column-1, 0)), e.Message)
}
