package main

import (
	"strings"
)

// special describes a type of package wire that decodes itself; nil: it is not known. Tests compare the descriptions with what
// wire.Decode accepts.
func special(name string) func(*collector, *typ) {
	return map[string]func(*collector, *typ){
		"NoParams": func(_ *collector, t *typ) { t.kind, t.closed, t.nullable = object, true, true },

		"Base64":       aliasOf(ref{shape: text, format: "base64", pattern: base64Pattern}),
		"PathURI":      aliasOf(ref{shape: text, format: "uri"}),
		"Cwd":          aliasOf(ref{shape: text}),
		"AbsolutePath": aliasOf(ref{shape: text}),
		"Amount":       aliasOf(ref{shape: number}),
		"OutputCap":    aliasOf(ref{shape: integer, bits: 64, unsigned: true, nullable: true}),
		"TimeoutMs":    aliasOf(ref{shape: integer, bits: 64, nullable: true}),
		"Dimension":    aliasOf(ref{shape: integer, bits: 16, unsigned: true}),
		"EnvOverrides": aliasOf(ref{shape: mapping, elem: &ref{shape: text, nullable: true}, nullable: true}),
		"DomainRules":  mappingTo("DomainAccess"),
		"SocketRules":  mappingTo("SocketAccess"),

		"Access":           describeAccess,
		"SignalAny":        describeSignal,
		"Limits":           describeLimits,
		"Permissions":      describePermissions,
		"FileSystemPolicy": describeFileSystemPolicy,
		"SandboxPath":      describeSandboxPath,
		"SpecialPath":      describeSpecialPath,
		"Sandbox":          describeSandbox,
	}[name]
}

// base64Pattern is standard base64 with padding and zero trailing bits.
const base64Pattern = `^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$`

func aliasOf(r ref) func(*collector, *typ) {
	return func(_ *collector, t *typ) { t.kind, t.of = alias, &r }
}

func mappingTo(name string) func(*collector, *typ) {
	return func(c *collector, t *typ) {
		c.add(name)
		t.kind, t.of = alias, &ref{shape: mapping, elem: &ref{shape: named, name: name}}
	}
}

// member is a required member with a type of package wire.
func (c *collector) member(name, of string) field {
	c.add(of)
	return field{name: name, of: &ref{shape: named, name: of}, required: true}
}

func textMember(name string) field {
	return field{name: name, of: &ref{shape: text}, required: true}
}

// optional makes a member one that may be absent or null.
func optional(f field) field {
	f.required, f.nullable = false, true
	return f
}

// variant is the form of a union that a constant of package wire names.
func (c *collector) variant(constant string, fields ...field) variant {
	for _, group := range c.source.constants {
		for _, k := range group.constants {
			if text, isText := k.value.(string); isText && k.name == constant {
				return variant{text, k.doc, fields}
			}
		}
	}
	c.fail("there is no constant wire.%s, which schema/generate/specials.go uses", constant)
	return variant{}
}

func describeAccess(c *collector, t *typ) {
	t.kind = enum
	for _, v := range c.source.values[t.name] {
		t.values = append(t.values, value(v))
	}
	t.schema = func(s jsonObject) jsonObject {
		return s.set("enum", append(s.get("enum").([]string), "none"))
	}
}

// describeSignal has the full names as values. Peers may omit SIG and write the rest in any case.
func describeSignal(c *collector, t *typ) {
	t.kind = enum
	names, ok := c.source.texts(c.source.vars["signalNames"])
	if !ok {
		c.fail("wire.signalNames is not a list of texts, which schema/generate/specials.go needs")
	}
	anyCase := func(s string) string {
		var b strings.Builder
		for _, r := range s {
			if r >= 'A' && r <= 'Z' {
				b.WriteString("[" + string(r) + strings.ToLower(string(r)) + "]")
			} else {
				b.WriteRune(r)
			}
		}
		return b.String()
	}
	var short []string
	for _, name := range names {
		t.values = append(t.values, value{text: name})
		short = append(short, anyCase(strings.TrimPrefix(name, "SIG")))
	}
	pattern := "^(?:" + anyCase("SIG") + ")?(?:" + strings.Join(short, "|") + ")$"
	t.schema = func(s jsonObject) jsonObject { return s.remove("enum").set("pattern", pattern) }
}

// describeLimits refuses other members, and values that are not above zero.
func describeLimits(c *collector, t *typ) {
	t.kind, t.closed = object, true
	t.fields = c.fieldsOf(t.name)
	for i, f := range t.fields {
		switch {
		case f.of.shape == integer:
			t.fields[i].of.min = 1
		case f.name == "cpus":
			t.fields[i].of = &ref{shape: number, positive: true}
		}
	}
}

func describePermissions(c *collector, t *typ) {
	network := c.member("network", "NetworkAccess")
	t.kind, t.tag = union, "type"
	t.variants = []variant{
		c.variant("PermissionsManaged", c.member("file_system", "FileSystemPolicy"), network),
		c.variant("PermissionsDisabled"),
		c.variant("PermissionsExternal", network),
	}
}

func describeFileSystemPolicy(c *collector, t *typ) {
	c.add("SandboxEntry")
	entries := field{name: "entries", of: &ref{shape: list, elem: &ref{shape: named, name: "SandboxEntry"}}, required: true}
	depth := optional(field{name: "glob_scan_max_depth", of: &ref{shape: integer, bits: 64, unsigned: true, min: 1}, doc: "absent: no limit"})
	t.kind, t.tag = union, "type"
	t.variants = []variant{c.variant("FileSystemRestricted", entries, depth), c.variant("FileSystemUnrestricted")}
}

func describeSandboxPath(c *collector, t *typ) {
	t.kind, t.tag = union, "type"
	t.variants = []variant{
		c.variant("SandboxPathURI", c.member("path", "PathURI")),
		c.variant("SandboxPathGlob", textMember("pattern")),
		c.variant("SandboxPathSpecial", c.member("value", "SpecialPath")),
	}
}

func describeSpecialPath(c *collector, t *typ) {
	subpath := optional(textMember("subpath"))
	t.kind, t.tag = union, "kind"
	t.variants = []variant{
		c.variant("SpecialRoot"), c.variant("SpecialMinimal"),
		{"current_working_directory", "another spelling of project_roots", []field{subpath}},
		c.variant("SpecialProjectRoots", subpath), c.variant("SpecialTmpdir"), c.variant("SpecialSlashTmp"),
		c.variant("SpecialUnknown", textMember("path"), subpath),
	}
}

// describeSandbox has the present form as members. The draft form, of older clients, is in the JSON Schema only.
func describeSandbox(c *collector, t *typ) {
	t.kind, t.fields = object, c.fieldsOf(t.name)
	c.types[draftName] = &typ{
		name: draftName, kind: object,
		doc:    "SandboxDraft is the form of a Sandbox that clients older than the reference version send: an object with a mode and without permissions. Paths in it may be absolute paths.",
		schema: func(jsonObject) jsonObject { return draftSchema },
	}
	t.schema = func(present jsonObject) jsonObject {
		description := present.get("description")
		return jsonObject{
			{"description", description},
			{"if", jsonObject{{"type", "object"}, {"required", []string{"mode"}}, {"not", jsonObject{{"required", []string{"permissions"}}}}}},
			{"then", jsonObject{{"$ref", defs + draftName}}},
			{"else", present.remove("description")},
		}
	}
}

// envelope adds the types that all messages share.
func (c *collector) envelope() {
	c.types["RequestId"] = &typ{
		name: "RequestId", kind: alias, doc: c.source.docs["ID"], typescript: "string | number", python: "str | int",
		of: &ref{shape: anything},
		schema: func(s jsonObject) jsonObject {
			return s.set("type", []string{"string", "integer"})
		},
	}
	reasons := &typ{name: "ErrorReason", kind: enum, doc: "ErrorReason is the reason of an error of a method under tether/, for programs."}
	codes := &typ{name: "ErrorCode", kind: alias, doc: "ErrorCode is the code of an error: one of the constants whose names begin with Code.", of: &ref{shape: integer, bits: 32}}
	for _, group := range c.source.constants {
		for _, k := range group.constants {
			if text, isText := k.value.(string); isText && hasWord(k.name, "Error") {
				reasons.values = append(reasons.values, value{text, k.doc})
			}
		}
	}
	c.types[reasons.name], c.types[codes.name] = reasons, codes
	c.types["ErrorData"] = &typ{name: "ErrorData", kind: object, doc: "ErrorData is the data of an error with a reason.",
		fields: []field{{name: "reason", of: &ref{shape: named, name: "ErrorReason"}, required: true}}}
	c.types["ErrorObject"] = &typ{name: "ErrorObject", kind: object, doc: "ErrorObject is the error member of an answer. Its data is an ErrorData if the error has a reason.",
		fields: []field{
			{name: "code", of: &ref{shape: named, name: "ErrorCode"}, required: true},
			{name: "message", of: &ref{shape: text}, required: true},
			{name: "data", of: &ref{shape: anything}},
		}}
}

// draftName is the type of the draft form of a sandbox.
const draftName = "SandboxDraft"

// isDraft reports whether a type is only part of the JSON Schema.
func isDraft(t *typ) bool { return t.name == draftName }
