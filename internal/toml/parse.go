package toml

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2/unstable"
)

// The library's parser splits a document into expressions: headers, and keys with their values. The rules about
// keys that occur twice are here, and the rules about numbers and dates in scalar.go. The library's decoder has them
// too, but it loses the order of keys, and with it the program has 0.14 MB more. The tests compare both.

// A document is a TOML document that is being read.
type document struct {
	text    []byte
	parser  unstable.Parser
	size    counter
	root    *Table
	current *Table // the table of the last header
}

// Parse reads a TOML document. Errors are *SyntaxError, or the cause of ctx's end.
func Parse(ctx context.Context, text []byte) (*Table, error) {
	root := New()
	d := &document{text: text, root: root, current: root}
	d.parser.Reset(text)
	for d.parser.NextExpression() {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		e := d.parser.Expression()
		if err := d.size.add(e, 0); err != nil {
			return nil, err
		}
		if err := d.expression(e); err != nil {
			return nil, err
		}
	}
	if err := d.parser.Error(); err != nil {
		return nil, d.parserError(err)
	}
	return root, nil
}

func (d *document) expression(e *unstable.Node) (err error) {
	switch e.Kind {
	case unstable.Table:
		d.current, err = d.root.openTable(keysOf(e))
	case unstable.ArrayTable:
		d.current, err = d.root.appendTable(keysOf(e))
	case unstable.KeyValue:
		if err = d.current.assign(e); err == nil {
			return d.checkScalars(e.Value())
		}
	}
	if err != nil {
		key := e.Key()
		key.Next()
		return d.errorAt(int(key.Node().Raw.Offset), err.Error())
	}
	return nil
}

// parserError adds the position to an error of the parser.
func (d *document) parserError(err error) error {
	e, ok := errors.AsType[*unstable.ParserError](err)
	if !ok {
		return &SyntaxError{Line: 1, Column: 1, Message: err.Error()}
	}
	return d.errorAt(int(d.parser.Range(e.Highlight).Offset), e.Message)
}

// errorAt is an error at an offset in the document.
func (d *document) errorAt(offset int, message string) error {
	before := d.text[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	line, _, _ := bytes.Cut(d.text[start:], []byte("\n"))
	return &SyntaxError{
		Line:    bytes.Count(before, []byte("\n")) + 1,
		Column:  offset - start + 1,
		text:    string(bytes.TrimSuffix(line, []byte("\r"))),
		Message: message,
	}
}

// checkScalars checks the numbers and dates of a value.
func (d *document) checkScalars(n *unstable.Node) error {
	switch n.Kind {
	case unstable.InlineTable, unstable.Array:
		for it := n.Children(); it.Next(); {
			element := it.Node()
			if element.Kind == unstable.KeyValue {
				element = element.Value()
			}
			if err := d.checkScalars(element); err != nil {
				return err
			}
		}
	default:
		if problem := scalarProblem(n.Kind, string(n.Data)); problem != "" {
			return d.errorAt(int(n.Raw.Offset), problem)
		}
	}
	return nil
}

// A counter counts the keys and values of a document.
type counter struct{ keys, values int }

// add counts an expression, a value or an element, and everything below it.
func (c *counter) add(n *unstable.Node, level int) error {
	if level > MaxNesting {
		return errNesting
	}
	switch n.Kind {
	case unstable.Table, unstable.ArrayTable, unstable.KeyValue: // their children are the parts of a key, and a value
		parts := 0
		for it := n.Children(); it.Next(); parts++ {
			if parts == MaxNesting {
				return errNesting
			}
		}
	case unstable.Key, unstable.InlineTable, unstable.Array:
		c.keys++
	}
	c.values++
	switch {
	case c.keys > MaxKeys:
		return errKeys
	case c.values > MaxValues:
		return errValues
	}
	for it := n.Children(); it.Next(); {
		if err := c.add(it.Node(), level+1); err != nil {
			return err
		}
	}
	return nil
}

// openTable returns the table of a header such as [x.y], which may occur once.
func (t *Table) openTable(keys []string) (*Table, error) {
	parent, err := t.descend(keys[:len(keys)-1])
	if err != nil {
		return nil, err
	}
	last := keys[len(keys)-1]
	switch value := parent.Values[last].(type) {
	case nil:
		opened := tableFrom(header)
		parent.Set(last, opened)
		return opened, nil
	case *Table:
		if value.origin == implied {
			value.origin = header
			return value, nil
		}
	}
	return nil, errDefined(last)
}

// appendTable returns a new element of the list of tables that a header such as [[x.y]] names.
func (t *Table) appendTable(keys []string) (*Table, error) {
	parent, err := t.descend(keys[:len(keys)-1])
	if err != nil {
		return nil, err
	}
	last := keys[len(keys)-1]
	list, _ := parent.Values[last].([]any)
	if parent.Values[last] != nil && !parent.lists[last] {
		return nil, errDefined(last)
	}
	if parent.lists == nil {
		parent.lists = map[string]bool{}
	}
	parent.lists[last] = true
	element := tableFrom(header)
	parent.Set(last, append(list, element))
	return element, nil
}

// descend finds or makes the tables on the way to the table of a header. A list of tables stands for its last table.
func (t *Table) descend(keys []string) (*Table, error) {
	for _, key := range keys {
		value := t.Values[key]
		if list, ok := value.([]any); ok && t.lists[key] {
			value = list[len(list)-1]
		}
		next, ok := value.(*Table)
		switch {
		case value == nil:
			next = New()
			t.Set(key, next)
		case !ok || next.origin == inline:
			return nil, fmt.Errorf("key %s is already defined, and not as a table that can be extended", key)
		}
		t = next
	}
	return t, nil
}

// assign adds a key with its value. The tables of a dotted key can be extended by other dotted keys only.
func (t *Table) assign(keyValue *unstable.Node) error {
	keys := keysOf(keyValue)
	last := keys[len(keys)-1]
	for _, key := range keys[:len(keys)-1] {
		value, exists := t.Values[key]
		next, ok := value.(*Table)
		switch {
		case !exists:
			next = tableFrom(dotted)
			t.Set(key, next)
		case !ok || next.origin != dotted:
			return errDefined(key)
		}
		t = next
	}
	if _, exists := t.Values[last]; exists {
		return errDefined(last)
	}
	value, err := valueOf(keyValue.Value())
	if err != nil {
		return err
	}
	t.Set(last, value)
	return nil
}

func errDefined(key string) error { return fmt.Errorf("key %s is already defined", key) }

func keysOf(n *unstable.Node) (keys []string) {
	for it := n.Key(); it.Next(); {
		keys = append(keys, string(it.Node().Data))
	}
	return keys
}

func valueOf(n *unstable.Node) (any, error) {
	switch n.Kind {
	case unstable.String:
		return string(n.Data), nil
	case unstable.InlineTable:
		t := tableFrom(inline)
		for it := n.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				if err := t.assign(it.Node()); err != nil {
					return nil, err
				}
			}
		}
		return t, nil
	case unstable.Array:
		list := []any{}
		for it := n.Children(); it.Next(); {
			if it.Node().Kind != unstable.Comment {
				value, err := valueOf(it.Node())
				if err != nil {
					return nil, err
				}
				list = append(list, value)
			}
		}
		return list, nil
	default:
		return Raw(n.Data), nil
	}
}
