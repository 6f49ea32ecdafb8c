package toml

import (
	"fmt"
	"strings"
)

// maxText limits the text that is written for one file: a name that is long in the
// file once may be needed in the header of each table below it.
const maxText = 1 << 20

var errText = fmt.Errorf("the selected configuration takes more than %d bytes when it is written with full table names", maxText)

// Text writes a table as a TOML document: in each table the plain values first,
// then the tables, so that every value stays in its table.
func (t *Table) Text() (string, error) {
	var b strings.Builder
	t.write(&b, "")
	if b.Len() > maxText {
		return "", errText
	}
	return b.String(), nil
}

// write stops soon after maxText bytes.
func (t *Table) write(b *strings.Builder, path string) {
	for _, key := range t.Keys {
		if value := t.Values[key]; !isSection(value) {
			b.WriteString(quoteKey(key) + " = ")
			writeValue(b, value)
			b.WriteByte('\n')
		}
	}
	for _, key := range t.Keys {
		value := t.Values[key]
		if !isSection(value) {
			continue
		}
		if b.Len() > maxText {
			return
		}
		name := quoteKey(key)
		if path != "" {
			name = path + "." + name
		}
		switch value := value.(type) {
		case *Table:
			if value.needsHeader() {
				startSection(b, "["+name+"]")
			}
			value.write(b, name)
		case []any:
			for _, item := range value {
				if b.Len() > maxText {
					return
				}
				startSection(b, "[["+name+"]]")
				item.(*Table).write(b, name)
			}
		}
	}
}

func startSection(b *strings.Builder, header string) {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(header + "\n")
}

// isSection reports whether a value has a header of its own: a table, or a list
// that contains only tables.
func isSection(value any) bool {
	switch value := value.(type) {
	case *Table:
		return true
	case []any:
		for _, item := range value {
			if _, ok := item.(*Table); !ok {
				return false
			}
		}
		return len(value) > 0
	}
	return false
}

// needsHeader is false for a table that its subtables imply.
func (t *Table) needsHeader() bool {
	for _, value := range t.Values {
		if !isSection(value) {
			return true
		}
	}
	return len(t.Keys) == 0
}

func writeValue(b *strings.Builder, value any) {
	switch value := value.(type) {
	case Raw:
		b.WriteString(string(value))
	case string:
		b.WriteString(quote(value))
	case []any:
		b.WriteByte('[')
		for i, item := range value {
			if i > 0 {
				b.WriteString(", ")
			}
			writeValue(b, item)
		}
		b.WriteByte(']')
	case *Table:
		if len(value.Keys) == 0 {
			b.WriteString("{}")
			return
		}
		b.WriteString("{ ")
		for i, key := range value.Keys {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quoteKey(key) + " = ")
			writeValue(b, value.Values[key])
		}
		b.WriteString(" }")
	}
}

func quoteKey(key string) string {
	for _, c := range []byte(key) {
		bare := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
		if !bare {
			return quote(key)
		}
	}
	if key == "" {
		return `""`
	}
	return key
}

var stringEscapes = strings.NewReplacer(
	`\`, `\\`, `"`, `\"`, "\b", `\b`, "\t", `\t`, "\n", `\n`, "\f", `\f`, "\r", `\r`)

func quote(s string) string {
	s = stringEscapes.Replace(s)
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			fmt.Fprintf(&b, `\u%04X`, r)
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
