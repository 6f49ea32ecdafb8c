package codexhome

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A table is a TOML table whose keys keep the order of the file: a client may start
// servers in that order.
//
// Values are *table, []any, string, or raw for values that need no interpretation.
type table struct {
	keys   []string
	values map[string]any
}

// Limits of a file. They are checked before the file is decoded: for each part of a
// key the decoder searches all earlier keys, and makes a table.
const (
	maxNesting = 64    // parts of a dotted key, and depth of nested values
	maxKeys    = 16384 // parts of keys, tables and lists: less than half a second of work
	maxValues  = 65536 // of any kind
)

var (
	errNesting = &syntaxError{line: 1, column: 1, message: fmt.Sprintf("nested more than %d levels deep", maxNesting)}
	errKeys    = &syntaxError{line: 1, column: 1, message: fmt.Sprintf("more than %d keys, tables and lists", maxKeys)}
	errValues  = &syntaxError{line: 1, column: 1, message: fmt.Sprintf("more than %d values", maxValues)}
)

// raw is a number, a boolean or a date as the file spells it.
type raw string

func newTable() *table { return &table{values: map[string]any{}} }

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

// parse reads a TOML document. Errors are *syntaxError, or the cause of ctx's end.
func parse(ctx context.Context, document []byte) (*table, error) {
	if err := checkLimits(ctx, document); err != nil {
		return nil, err
	}
	// The decoder checks all rules, but loses the order of keys. The parser below
	// keeps the order, but does not notice, for example, a duplicate key.
	if err := toml.Unmarshal(document, new(map[string]any)); err != nil {
		return nil, asSyntaxError(document, err)
	}
	root := newTable()
	current := root
	var p unstable.Parser
	p.Reset(document)
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table:
			current = root.descend(keysOf(e))
		case unstable.ArrayTable:
			keys := keysOf(e)
			parent, last := root.descend(keys[:len(keys)-1]), keys[len(keys)-1]
			current = newTable()
			list, _ := parent.values[last].([]any)
			parent.set(last, append(list, current))
		case unstable.KeyValue:
			current.assign(e)
		}
	}
	if err := p.Error(); err != nil {
		return nil, &syntaxError{line: 1, column: 1, message: err.Error()}
	}
	return root, nil
}

// checkLimits parses a document as far as it is TOML, in linear time.
func checkLimits(ctx context.Context, document []byte) error {
	var n counter
	var p unstable.Parser
	p.Reset(document)
	for p.NextExpression() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := n.add(p.Expression(), 0); err != nil {
			return err
		}
	}
	return nil // the decoder reports syntax errors
}

// A counter counts the keys and values of a document.
type counter struct{ keys, values int }

// add counts an expression, a value or an element, and everything below it.
func (c *counter) add(n *unstable.Node, level int) error {
	if level > maxNesting {
		return errNesting
	}
	switch n.Kind {
	case unstable.Table, unstable.ArrayTable, unstable.KeyValue: // their children are the parts of a key, and a value
		parts := 0
		for it := n.Children(); it.Next(); parts++ {
			if parts == maxNesting {
				return errNesting
			}
		}
	case unstable.Key, unstable.InlineTable, unstable.Array:
		c.keys++
	}
	c.values++
	switch {
	case c.keys > maxKeys:
		return errKeys
	case c.values > maxValues:
		return errValues
	}
	for it := n.Children(); it.Next(); {
		if err := c.add(it.Node(), level+1); err != nil {
			return err
		}
	}
	return nil
}

func asSyntaxError(document []byte, err error) error {
	decode, ok := errors.AsType[*toml.DecodeError](err)
	if !ok {
		return &syntaxError{line: 1, column: 1, message: strings.TrimPrefix(err.Error(), "toml: ")}
	}
	e := &syntaxError{message: strings.TrimPrefix(decode.Error(), "toml: ")}
	e.line, e.column = decode.Position()
	if lines := bytes.Split(document, []byte("\n")); e.line >= 1 && e.line <= len(lines) {
		e.text = string(bytes.TrimSuffix(lines[e.line-1], []byte("\r")))
	}
	return e
}

// descend finds or makes the table of a dotted key. A list of tables stands for its
// last table.
func (t *table) descend(keys []string) *table {
	for _, key := range keys {
		switch value := t.values[key].(type) {
		case *table:
			t = value
		case []any:
			last, ok := value[len(value)-1].(*table)
			if !ok {
				return newTable() // not TOML; the decoder has refused it
			}
			t = last
		default:
			sub := newTable()
			t.set(key, sub)
			t = sub
		}
	}
	return t
}

func (t *table) assign(keyValue *unstable.Node) {
	keys := keysOf(keyValue)
	last := len(keys) - 1
	t.descend(keys[:last]).set(keys[last], valueOf(keyValue.Value()))
}

func keysOf(n *unstable.Node) (keys []string) {
	for it := n.Key(); it.Next(); {
		keys = append(keys, string(it.Node().Data))
	}
	return keys
}

func valueOf(n *unstable.Node) any {
	switch n.Kind {
	case unstable.String:
		return string(n.Data)
	case unstable.InlineTable:
		t := newTable()
		for it := n.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				t.assign(it.Node())
			}
		}
		return t
	case unstable.Array:
		list := []any{}
		for it := n.Children(); it.Next(); {
			if it.Node().Kind != unstable.Comment {
				list = append(list, valueOf(it.Node()))
			}
		}
		return list
	default:
		return raw(n.Data)
	}
}
