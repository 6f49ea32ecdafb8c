package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// defs is where references to types point. OpenRPC replaces it.
const defs = "#/$defs/"

// A jsonObject is a JSON object whose members keep their order.
type jsonObject []jsonMember

type jsonMember struct {
	key   string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o jsonObject) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(m.key)
		value, err := marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshal is json.Marshal without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

func (o jsonObject) get(key string) any {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// set returns the object with a member replaced or added at the end.
func (o jsonObject) set(key string, v any) jsonObject {
	o = slices.Clone(o)
	for i := range o {
		if o[i].key == key {
			o[i].value = v
			return o
		}
	}
	return append(o, jsonMember{key, v})
}

func (o jsonObject) remove(key string) jsonObject {
	return slices.DeleteFunc(slices.Clone(o), func(m jsonMember) bool { return m.key == key })
}

// indented is the text of a JSON document.
func indented(o jsonObject) []byte {
	text, err := marshal(o)
	if err != nil {
		panic(err) // such values can be encoded
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", " "); err != nil {
		panic(err) // it is JSON
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func writeJSONSchema(m *model) []byte {
	types := jsonObject{}
	for _, side := range []struct {
		name, doc string
		calls     []call
		from      string
	}{
		{"ExecFromClient", "A message from a client to an exec-server.", m.exec, "client"},
		{"ExecFromServer", "A message from an exec-server to its client.", m.exec, "server"},
		{"AppFromClient", "A message from a client to an app-server.", m.app, "client"},
		{"AppFromServer", "A message from an app-server to its client.", m.app, "server"},
	} {
		types = append(types, jsonMember{side.name, messages(side.doc, side.calls, side.from)})
	}
	for _, t := range m.types {
		types = append(types, jsonMember{t.name, typeSchema(t)})
	}
	return indented(jsonObject{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", "https://github.com/tetherexec/tether/schema/tether.json"},
		{"title", "The protocols of tether"},
		{"description", "Generated from package wire. A message of the exec-server protocol with tether's additions, or of the process API of the app-server. " +
			"x-calls names the types of parameters and results of each request and notification. Three rules cannot be said in JSON Schema: integers are written as integers (5, not 5.0), " +
			"no member comes twice, and members that are not known are ignored."},
		{"anyOf", []jsonObject{refTo("ExecFromClient"), refTo("ExecFromServer"), refTo("AppFromClient"), refTo("AppFromServer")}},
		{"x-calls", jsonObject{{"exec", callList(m.exec)}, {"app", callList(m.app)}}},
		{"x-constants", constantList(m)},
		{"$defs", types},
	})
}

func refTo(name string) jsonObject { return jsonObject{{"$ref", defs + name}} }

// messages is the union of the messages of one side.
func messages(doc string, calls []call, from string) jsonObject {
	var forms []jsonObject
	for _, c := range calls {
		if string(c.From) != from {
			continue
		}
		properties, required := jsonObject{}, []string{}
		if c.IsNotification() {
			properties = append(properties, jsonMember{"id", false})
		} else {
			properties, required = append(properties, jsonMember{"id", refTo("RequestId")}), append(required, "id")
		}
		properties = append(properties, jsonMember{"method", jsonObject{{"const", c.Name}}})
		required = append(required, "method")
		if c.params != nil {
			properties = append(properties, jsonMember{"params", refTo(c.params.name)})
			if c.params.name != "NoParams" {
				required = append(required, "params")
			}
		}
		forms = append(forms, jsonObject{{"title", c.Name}, {"type", "object"}, {"properties", properties}, {"required", required}})
	}
	answer := func(title, member string, schema any) jsonObject {
		return jsonObject{
			{"title", title}, {"type", "object"},
			{"properties", jsonObject{{"id", refTo("RequestId")}, {"method", false}, {member, schema}}},
			{"required", []string{"id", member}},
		}
	}
	forms = append(forms, answer("result", "result", true), answer("error", "error", refTo("ErrorObject")))
	return jsonObject{{"description", doc}, {"anyOf", forms}}
}

// callList says which types belong to each call.
func callList(calls []call) []jsonObject {
	var list []jsonObject
	for _, c := range calls {
		row := jsonObject{{"method", c.Name}, {"from", string(c.From)}, {"kind", "request"}, {"description", c.Doc}}
		if c.IsNotification() {
			row = row.set("kind", "notification")
		}
		if c.params != nil {
			row = append(row, jsonMember{"params", refTo(c.params.name)})
		}
		if c.result != nil {
			row = append(row, jsonMember{"result", refTo(c.result.name)})
		}
		if c.Feature != "" {
			row = append(row, jsonMember{"feature", c.Feature})
		}
		list = append(list, row)
	}
	return list
}

func constantList(m *model) jsonObject {
	list := jsonObject{}
	for _, group := range m.constants {
		for _, c := range group.constants {
			row := jsonObject{{"value", c.value}}
			if c.doc != "" {
				row = append(row, jsonMember{"description", oneLine(c.doc)})
			}
			list = append(list, jsonMember{c.name, row})
		}
	}
	return list
}

// oneLine joins the lines of each paragraph of a comment.
func oneLine(doc string) string {
	paragraphs := strings.Split(doc, "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.ReplaceAll(p, "\n", " ")
	}
	return strings.Join(paragraphs, "\n\n")
}

func typeSchema(t *typ) jsonObject {
	s := jsonObject{}
	if t.doc != "" {
		s = append(s, jsonMember{"description", oneLine(t.doc)})
	}
	switch t.kind {
	case object:
		kind := any("object")
		if t.nullable {
			kind = []string{"object", "null"}
		}
		s = append(append(s, jsonMember{"type", kind}), memberSchemas(t.fields)...)
		if t.closed {
			s = append(s, jsonMember{"additionalProperties", false})
		}
	case enum:
		var texts []string
		for _, v := range t.values {
			texts = append(texts, v.text)
		}
		s = append(s, jsonMember{"type", "string"}, jsonMember{"enum", texts})
	case union:
		var forms []jsonObject
		for _, v := range t.variants {
			form := jsonObject{{"title", v.value}}
			if v.doc != "" {
				form = append(form, jsonMember{"description", oneLine(v.doc)})
			}
			form = append(form, jsonMember{"type", "object"})
			tag := jsonMember{t.tag, jsonObject{{"const", v.value}}}
			members := memberSchemas(v.fields)
			properties, _ := members.get("properties").(jsonObject)
			required, _ := members.get("required").([]string)
			form = append(form, jsonMember{"properties", append(jsonObject{tag}, properties...)},
				jsonMember{"required", append([]string{t.tag}, required...)})
			forms = append(forms, form)
		}
		s = append(s, jsonMember{"oneOf", forms})
	case alias:
		s = append(s, refSchema(t.of, t.of.nullable)...)
	}
	if t.schema != nil {
		s = t.schema(s)
	}
	return s
}

// memberSchemas are the keywords about the members of an object.
func memberSchemas(fields []field) (s jsonObject) {
	properties, required := jsonObject{}, []string{}
	for _, f := range fields {
		schema := refSchema(f.of, f.nullable)
		if f.doc != "" {
			schema = append(schema, jsonMember{"description", oneLine(f.doc)})
		}
		properties = append(properties, jsonMember{f.name, schema})
		if f.required {
			required = append(required, f.name)
		}
	}
	if len(properties) > 0 {
		s = append(s, jsonMember{"properties", properties})
	}
	if len(required) > 0 {
		s = append(s, jsonMember{"required", required})
	}
	return s
}

// refSchema is the schema of a use of a type.
func refSchema(r *ref, nullable bool) jsonObject {
	typed := func(name string) jsonObject {
		if nullable {
			return jsonObject{{"type", []string{name, "null"}}}
		}
		return jsonObject{{"type", name}}
	}
	add := func(s jsonObject, key string, v any) jsonObject { return append(s, jsonMember{key, v}) }
	switch r.shape {
	case text:
		s := typed("string")
		if r.format == "base64" {
			s = add(s, "contentEncoding", r.format)
		} else if r.format != "" {
			s = add(s, "format", r.format)
		}
		if r.pattern != "" {
			s = add(s, "pattern", r.pattern)
		}
		return s
	case boolean:
		return typed("boolean")
	case integer:
		return append(typed("integer"), bounds(r)...)
	case number:
		s := typed("number")
		if r.positive {
			s = add(s, "exclusiveMinimum", 0)
		}
		return s
	case list:
		return add(typed("array"), "items", refSchema(r.elem, r.elem.nullable))
	case mapping:
		return add(typed("object"), "additionalProperties", refSchema(r.elem, r.elem.nullable))
	case named:
		if nullable {
			return orNull(refTo(r.name))
		}
		return refTo(r.name)
	}
	return jsonObject{}
}

// bounds are the limits of an integer. Those of 64 bits cannot be written as JSON numbers that every program reads
// exactly: format names them.
func bounds(r *ref) jsonObject {
	switch {
	case r.unsigned && r.bits == 64:
		return jsonObject{{"minimum", r.min}, {"format", "uint64"}}
	case r.unsigned:
		return jsonObject{{"minimum", r.min}, {"maximum", int64(1)<<r.bits - 1}}
	case r.bits == 64:
		return jsonObject{{"format", "int64"}}
	}
	return jsonObject{{"minimum", -(int64(1) << (r.bits - 1))}, {"maximum", int64(1)<<(r.bits-1) - 1}}
}
