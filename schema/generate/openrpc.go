package main

import (
	"bytes"
)

// writeOpenRPC describes the exec-server protocol, and the process API in x-app-server: both have a method named initialize, and a
// document may have each name once.
func writeOpenRPC(m *model) []byte {
	schemas := jsonObject{}
	for _, t := range m.types {
		schemas = append(schemas, jsonMember{t.name, typeSchema(t)})
	}
	var codes []jsonObject
	for _, group := range m.constants {
		for _, c := range group.constants {
			if n, isCode := c.value.(int64); isCode && hasWord(c.name, "Code") {
				codes = append(codes, jsonObject{{"code", n}, {"message", oneLine(orText(c.doc, c.name))}})
			}
		}
	}
	doc := indented(jsonObject{
		{"openrpc", "1.3.2"},
		{"info", jsonObject{
			{"title", "tether"}, {"version", wireVersion},
			{"description", "Generated from package wire: the exec-server protocol with tether's additions. Messages have no member jsonrpc. x-from is server " +
				"for the requests and notifications of the server; x-feature is the feature by which a server announces a method. x-app-server has the process API of the app-server."},
		}},
		{"methods", rpcMethods(m.exec)},
		{"x-app-server", jsonObject{{"methods", rpcMethods(m.app)}}},
		{"x-errors", codes},
		{"x-constants", constantList(m)},
		{"components", jsonObject{{"schemas", schemas}}},
	})
	return bytes.ReplaceAll(doc, []byte(`"`+defs), []byte(`"#/components/schemas/`))
}

func orText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func rpcMethods(calls []call) []jsonObject {
	var list []jsonObject
	for _, c := range calls {
		method := jsonObject{{"name", c.Name}, {"summary", c.Doc}, {"paramStructure", "by-name"}}
		params := []jsonObject{}
		if c.params != nil && c.params.name != "NoParams" {
			params = paramDescriptors(c.params.typ)
		}
		method = append(method, jsonMember{"params", params})
		if c.params != nil {
			method = append(method, jsonMember{"x-params", refTo(c.params.name)})
		}
		if c.result != nil {
			method = append(method, jsonMember{"result", jsonObject{{"name", c.result.name}, {"schema", refTo(c.result.name)}}})
		}
		if c.From == "server" {
			method = append(method, jsonMember{"x-from", "server"})
		}
		if c.Feature != "" {
			method = append(method, jsonMember{"x-feature", c.Feature})
		}
		list = append(list, method)
	}
	return list
}

// paramDescriptors are the members of a type of parameters.
func paramDescriptors(t *typ) []jsonObject {
	list := []jsonObject{}
	for _, f := range t.fields {
		d := jsonObject{{"name", f.name}}
		if f.doc != "" {
			d = append(d, jsonMember{"description", oneLine(f.doc)})
		}
		if f.required {
			d = append(d, jsonMember{"required", true})
		}
		list = append(list, append(d, jsonMember{"schema", refSchema(f.of, f.nullable)}))
	}
	return list
}
