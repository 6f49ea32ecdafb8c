package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// writePython writes TypedDicts and constants for Python 3.11 and later. Names of types stand in quotes, so that their order
// does not matter; Required and NotRequired do not, so that programs can see them.
func writePython(m *model) []byte {
	var b strings.Builder
	b.WriteString(`# Generated from package wire by "make schema". Do not edit.
"""The exec-server protocol with tether's additions, and the process API of the app-server.

A NotRequired member may be absent; members that are not known must be ignored.
"""

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, Union
`)
	for _, group := range m.constants {
		b.WriteByte('\n')
		pyComment(&b, "", group.doc)
		for _, c := range group.constants {
			pyComment(&b, "", c.doc)
			fmt.Fprintf(&b, "%s = %s\n", upperSnake(c.name), tsLiteral(c.value))
		}
	}
	for _, t := range m.types {
		if !isDraft(t) {
			pyType(&b, t)
		}
	}
	pyCalls(&b, "EXEC_CALLS", "an exec-server", m.exec)
	pyCalls(&b, "APP_CALLS", "an app-server", m.app)
	return []byte(b.String())
}

// upperSnake is the name of a constant in Python: MaxOnceID is MAX_ONCE_ID.
func upperSnake(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) {
			last := runes[i-1]
			next := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if unicode.IsLower(last) || unicode.IsDigit(last) || unicode.IsUpper(last) && next {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

func pyComment(b *strings.Builder, indent, text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(strings.TrimRight(indent+"# "+line, " ") + "\n")
	}
}

func pyDoc(b *strings.Builder, text string) bool {
	if text == "" {
		return false
	}
	text = strings.NewReplacer(`\`, `\\`, `"""`, `'''`).Replace(text)
	b.WriteString(`    """` + strings.ReplaceAll(text, "\n", "\n    "))
	if strings.Contains(text, "\n") || strings.HasSuffix(text, `"`) {
		b.WriteString("\n    ")
	}
	b.WriteString("\"\"\"\n")
	return true
}

func pyType(b *strings.Builder, t *typ) {
	switch t.kind {
	case object:
		b.WriteString("\n\n")
		pyClass(b, t.name, t.doc, t.fields)
	case enum:
		b.WriteByte('\n')
		pyComment(b, "", t.doc)
		var texts []string
		for _, v := range t.values {
			texts = append(texts, strconv.Quote(v.text))
		}
		fmt.Fprintf(b, "%s: TypeAlias = Literal[%s]\n", t.name, strings.Join(texts, ", "))
	case union:
		var names []string
		for _, v := range t.variants {
			name := t.name + camel(v.value)
			names = append(names, strconv.Quote(name))
			b.WriteString("\n\n")
			tag := field{name: t.tag, of: &ref{shape: anything}, required: true}
			pyClassWith(b, name, v.doc, append([]field{tag}, v.fields...), fmt.Sprintf("Literal[%q]", v.value))
		}
		b.WriteString("\n\n")
		pyComment(b, "", t.doc)
		fmt.Fprintf(b, "%s: TypeAlias = Union[%s]\n", t.name, strings.Join(names, ", "))
	case alias:
		b.WriteByte('\n')
		pyComment(b, "", t.doc)
		use := pyUse(t.of, t.of.nullable)
		if t.python != "" {
			use = t.python
		}
		fmt.Fprintf(b, "%s: TypeAlias = %s\n", t.name, use)
	}
}

// camel is the name of a variant as part of the name of a class.
func camel(text string) string {
	var b strings.Builder
	up := true
	for _, r := range text {
		if r == '_' || r == '-' {
			up = true
			continue
		}
		if up {
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		up = false
	}
	return b.String()
}

func pyClass(b *strings.Builder, name, doc string, fields []field) {
	pyClassWith(b, name, doc, fields, "")
}

// pyClassWith writes a class; first is the type of its first member if it is not empty.
func pyClassWith(b *strings.Builder, name, doc string, fields []field, first string) {
	if slices.ContainsFunc(fields, func(f field) bool { return slices.Contains(pyKeywords, f.name) }) {
		pyDict(b, name, doc, fields, first)
		return
	}
	fmt.Fprintf(b, "class %s(TypedDict):\n", name)
	if !pyDoc(b, doc) && len(fields) == 0 {
		b.WriteString("    pass\n")
	}
	for i, f := range fields {
		if doc != "" || i > 0 {
			b.WriteByte('\n')
		}
		pyComment(b, "    ", f.doc)
		fmt.Fprintf(b, "    %s: %s\n", f.name, pyMember(f, i, first))
	}
}

// pyMember is the type of the i-th member; first is that of the first one if it is not empty.
func pyMember(f field, i int, first string) string {
	use := strconv.Quote(pyUse(f.of, f.nullable))
	if i == 0 && first != "" {
		use = first
	}
	if !f.required {
		use = "NotRequired[" + use + "]"
	}
	return use
}

// pyKeywords cannot be members of a class.
var pyKeywords = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for from
	global if import in is lambda nonlocal not or pass raise return try while with yield`)

// pyDict writes a TypedDict that has a keyword of Python as the name of a member.
func pyDict(b *strings.Builder, name, doc string, fields []field, first string) {
	pyComment(b, "", doc)
	fmt.Fprintf(b, "%s = TypedDict(\n    %q,\n    {\n", name, name)
	for i, f := range fields {
		pyComment(b, "        ", f.doc)
		fmt.Fprintf(b, "        %q: %s,\n", f.name, pyMember(f, i, first))
	}
	b.WriteString("    },\n)\n")
}

func pyUse(r *ref, nullable bool) (s string) {
	switch r.shape {
	case text:
		s = "str"
	case boolean:
		s = "bool"
	case integer:
		s = "int"
	case number:
		s = "float"
	case anything:
		return "Any"
	case list:
		s = "list[" + pyUse(r.elem, r.elem.nullable) + "]"
	case mapping:
		s = "dict[str, " + pyUse(r.elem, r.elem.nullable) + "]"
	case named:
		s = r.name
	}
	if nullable {
		s += " | None"
	}
	return s
}

// pyCalls writes the calls of a protocol: who sends each, and the types of parameters and result.
func pyCalls(b *strings.Builder, name, server string, calls []call) {
	fmt.Fprintf(b, "\n\n# The requests and notifications between %s and its client: for each the sender, the type of the\n"+
		"# parameters, the type of the result (None: it is a notification), and the feature by which a server announces it.\n", server)
	fmt.Fprintf(b, "%s: dict[str, tuple[str, Any, Any, str]] = {\n", name)
	for _, c := range calls {
		params, result := "None", "None"
		if c.params != nil {
			params = c.params.name
		}
		if c.result != nil {
			result = c.result.name
		}
		fmt.Fprintf(b, "    %q: (%q, %s, %s, %q),\n", c.Name, c.From, params, result, c.Feature)
	}
	b.WriteString("}\n")
}
