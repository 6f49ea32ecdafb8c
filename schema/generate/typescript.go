package main

import (
	"fmt"
	"strconv"
	"strings"
)

// writeTypeScript writes types without code, and the constants.
func writeTypeScript(m *model) []byte {
	var b strings.Builder
	b.WriteString("// Generated from package wire by `make schema`. Do not edit.\n" +
		"// The exec-server protocol with tether's additions, and the process API of the app-server.\n" +
		"// A member that is marked with ? may be absent; members that are not known must be ignored.\n")
	for _, group := range m.constants {
		b.WriteByte('\n')
		tsComment(&b, "", "//", group.doc)
		for _, c := range group.constants {
			tsComment(&b, "", "/**", c.doc)
			fmt.Fprintf(&b, "export const %s = %s;\n", c.name, tsLiteral(c.value))
		}
	}
	for _, t := range m.types {
		if !isDraft(t) {
			b.WriteByte('\n')
			tsType(&b, t)
		}
	}
	tsCalls(&b, "Exec", "an exec-server", m.exec)
	tsCalls(&b, "App", "an app-server", m.app)
	return []byte(b.String())
}

func tsLiteral(v any) string {
	if text, isText := v.(string); isText {
		return strconv.Quote(text)
	}
	return fmt.Sprint(v)
}

// tsComment writes a comment, as // lines or as a block for documentation.
func tsComment(b *strings.Builder, indent, style, text string) {
	if text == "" {
		return
	}
	lines := strings.Split(strings.ReplaceAll(text, "*/", "*\u2215"), "\n")
	switch {
	case style == "//":
		for _, line := range lines {
			b.WriteString(strings.TrimRight(indent+"// "+line, " ") + "\n")
		}
	case len(lines) == 1:
		b.WriteString(indent + "/** " + lines[0] + " */\n")
	default:
		b.WriteString(indent + "/**\n")
		for _, line := range lines {
			b.WriteString(strings.TrimRight(indent+" * "+line, " ") + "\n")
		}
		b.WriteString(indent + " */\n")
	}
}

func tsType(b *strings.Builder, t *typ) {
	tsComment(b, "", "/**", t.doc)
	switch {
	case t.typescript != "":
		fmt.Fprintf(b, "export type %s = %s;\n", t.name, t.typescript)
	case t.kind == object && len(t.fields) == 0:
		null := ""
		if t.nullable {
			null = " | null"
		}
		fmt.Fprintf(b, "export type %s = Record<string, never>%s;\n", t.name, null)
	case t.kind == object:
		fmt.Fprintf(b, "export interface %s {\n", t.name)
		tsFields(b, "  ", t.fields)
		b.WriteString("}\n")
	case t.kind == enum:
		fmt.Fprintf(b, "export type %s =\n", t.name)
		for i, v := range t.values {
			end := ""
			if i == len(t.values)-1 {
				end = ";"
			}
			comment := ""
			if v.doc != "" {
				comment = " // " + strings.ReplaceAll(v.doc, "\n", " ")
			}
			fmt.Fprintf(b, "  | %q%s%s\n", v.text, end, comment)
		}
	case t.kind == union:
		fmt.Fprintf(b, "export type %s =\n", t.name)
		for i, v := range t.variants {
			tsComment(b, "  ", "/**", v.doc)
			b.WriteString("  | {\n")
			fmt.Fprintf(b, "      %s: %q;\n", t.tag, v.value)
			tsFields(b, "      ", v.fields)
			b.WriteString("    }")
			if i == len(t.variants)-1 {
				b.WriteByte(';')
			}
			b.WriteByte('\n')
		}
	default:
		fmt.Fprintf(b, "export type %s = %s;\n", t.name, tsUse(t.of, t.of.nullable))
	}
}

func tsFields(b *strings.Builder, indent string, fields []field) {
	for _, f := range fields {
		tsComment(b, indent, "/**", f.doc)
		mark := "?"
		if f.required {
			mark = ""
		}
		fmt.Fprintf(b, "%s%s%s: %s;\n", indent, f.name, mark, tsUse(f.of, f.nullable))
	}
}

func tsUse(r *ref, nullable bool) (s string) {
	switch r.shape {
	case text:
		s = "string"
	case boolean:
		s = "boolean"
	case integer, number:
		s = "number"
	case anything:
		return "unknown"
	case list:
		s = tsUse(r.elem, r.elem.nullable)
		if strings.Contains(s, " ") {
			s = "(" + s + ")"
		}
		s += "[]"
	case mapping:
		s = "Record<string, " + tsUse(r.elem, r.elem.nullable) + ">"
	case named:
		s = r.name
	}
	if nullable {
		s += " | null"
	}
	return s
}

// tsCalls writes the types of the calls of a protocol, by name.
func tsCalls(b *strings.Builder, prefix, server string, calls []call) {
	for _, part := range []struct {
		name, doc string
		from      string
		answered  bool
	}{
		{"Requests", "Requests of a client to " + server + ".", "client", true},
		{"ClientNotifications", "Notifications of a client to " + server + ": the types of their parameters.", "client", false},
		{"ServerRequests", "Requests of " + server + " to its client.", "server", true},
		{"ServerNotifications", "Notifications of " + server + " to its client: the types of their parameters.", "server", false},
	} {
		var rows strings.Builder
		for _, c := range calls {
			if string(c.From) != part.from || c.IsNotification() == part.answered {
				continue
			}
			doc := c.Doc
			if c.Feature != "" {
				doc += " Feature: " + c.Feature + "."
			}
			tsComment(&rows, "  ", "/**", doc)
			params := "Empty | null | undefined"
			if c.params != nil {
				params = c.params.name
			}
			if part.answered {
				fmt.Fprintf(&rows, "  %q: { params: %s; result: %s };\n", c.Name, params, c.result.name)
			} else {
				fmt.Fprintf(&rows, "  %q: %s;\n", c.Name, params)
			}
		}
		if rows.Len() > 0 {
			b.WriteByte('\n')
			tsComment(b, "", "/**", part.doc)
			fmt.Fprintf(b, "export interface %s {\n%s}\n", prefix+part.name, rows.String())
		}
	}
}
