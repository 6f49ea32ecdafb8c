package codexhome

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A table is a TOML table whose keys keep the order of the file: a client may
// start servers in that order.
//
// Values are *table, []any, string, or raw for what needs no interpretation.
type table struct {
	keys   []string
	values map[string]any
}

// maxNesting bounds the parts of a dotted key, and how deep values may lie in one
// another. Nobody writes that by hand, and each level costs the stack something.
const maxNesting = 64

var errNesting = &syntaxError{line: 1, column: 1, message: fmt.Sprintf("nested more than %d levels deep", maxNesting)}

// raw is a number, a boolean or a date as the file spells it.
type raw string

func newTable() *table { return &table{values: map[string]any{}} }

func (t *table) set(key string, value any) {
	if _, ok := t.values[key]; !ok {
		t.keys = append(t.keys, key)
	}
	t.values[key] = value
}

// without leaves some keys out.
func (t *table) without(keys ...string) *table {
	rest := newTable()
	for _, key := range t.keys {
		if !slices.Contains(keys, key) {
			rest.set(key, t.values[key])
		}
	}
	return rest
}

// keep leaves what the paths name. A path that goes on behind a value which is no
// table keeps the value: what is wrong with it is for the reader to say.
func (t *table) keep(paths [][]string) *table {
	kept := newTable()
	for _, key := range t.keys {
		var deeper [][]string
		named, whole := false, false
		for _, path := range paths {
			if path[0] != key {
				continue
			}
			named = true
			if len(path) == 1 {
				whole = true
			} else {
				deeper = append(deeper, path[1:])
			}
		}
		if !named {
			continue
		}
		value := t.values[key]
		if sub, ok := value.(*table); ok && !whole {
			value = sub.keep(deeper)
		}
		kept.set(key, value)
	}
	return kept
}

// A syntaxError says where a file is no TOML.
type syntaxError struct {
	line, column int
	text         string // of the line
	message      string
}

func (e *syntaxError) Error() string { return e.message }

// excerpt is the error with the line that it is about.
func (e *syntaxError) excerpt() string {
	number := fmt.Sprint(e.line)
	margin := strings.Repeat(" ", len(number))
	return fmt.Sprintf("TOML parse error at line %d, column %d\n%s |\n%s | %s\n%s | %s^\n%s\n",
		e.line, e.column, margin, number, e.text, margin, strings.Repeat(" ", max(e.column-1, 0)), e.message)
}

// parse reads a TOML document. Errors are *syntaxError.
func parse(document []byte) (*table, error) {
	// The decoder knows all rules, but not the order of keys; the parser below
	// knows the order, but not, for instance, that a key may not come twice.
	if err := toml.Unmarshal(document, new(map[string]any)); err != nil {
		return nil, asSyntaxError(document, err)
	}
	root := newTable()
	current := root
	var p unstable.Parser
	p.Reset(document)
	for p.NextExpression() {
		e := p.Expression()
		if tooDeep(e, 0) {
			return nil, errNesting
		}
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

// tooDeep checks an expression, a value or an element of one.
func tooDeep(n *unstable.Node, level int) bool {
	if level > maxNesting {
		return true
	}
	children := 0
	for it := n.Children(); it.Next(); children++ {
		if tooDeep(it.Node(), level+1) {
			return true
		}
	}
	// All children of these are parts of a key, but for the value.
	hasKey := n.Kind == unstable.Table || n.Kind == unstable.ArrayTable || n.Kind == unstable.KeyValue
	return hasKey && children > maxNesting
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

// descend finds or makes the table of a dotted key; a list of tables stands for
// its last one.
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
