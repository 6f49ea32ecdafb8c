package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tetherexec/tether/wire"
)

// A validator checks values against the types of the JSON Schema.
type validator struct{ schema *jsonschema.Resolved }

// describe reads the model, and makes a validator of its types, once for all tests.
var describe = sync.OnceValues(func() (*model, validator) {
	m, err := readModel("../../wire")
	if err != nil {
		panic(err)
	}
	var whole jsonschema.Schema
	if err := json.Unmarshal(writeJSONSchema(m), &whole); err != nil {
		panic(err)
	}
	// The library resolves a document as a whole: each type becomes a member of one object.
	members := &jsonschema.Schema{Defs: whole.Defs, Properties: map[string]*jsonschema.Schema{}}
	for name := range whole.Defs {
		members.Properties[name] = &jsonschema.Schema{Ref: defs + name}
	}
	resolved, err := members.Resolve(nil)
	if err != nil {
		panic(err)
	}
	return m, validator{resolved}
})

// check validates a JSON text as a type.
func (v validator) check(name string, text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return v.schema.Validate(map[string]any{name: value})
}

// goTypes are the types of package wire that the calls consist of, by name.
func goTypes() map[string]reflect.Type {
	found := map[string]reflect.Type{}
	var add func(reflect.Type)
	add = func(t reflect.Type) {
		if strings.HasSuffix(t.PkgPath(), "/wire") {
			if found[t.Name()] != nil {
				return
			}
			found[t.Name()] = t
		}
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			add(t.Elem())
		case reflect.Struct:
			for i := range t.NumField() {
				if t.Field(i).IsExported() {
					add(t.Field(i).Type)
				}
			}
		}
	}
	for _, row := range slices.Concat(wire.ExecCalls, wire.AppCalls) {
		for _, v := range []any{row.Params, row.Result} {
			if v != nil {
				add(reflect.TypeOf(v).Elem())
			}
		}
	}
	return found
}

// unencoded are the types that are only decoded, and have no encoding.
var unencoded = []string{"ProcessSpawnParams", "OutputCap", "TimeoutMs", "EnvOverrides"}

// The JSON Schema and wire.Decode accept the same values: random ones of each type, what wire makes of them, and values that
// were damaged in one place.
func TestSchemaAgreesWithDecode(t *testing.T) {
	m, v := describe()
	types := goTypes()
	rejected, accepted := 0, 0
	for _, typ := range m.types {
		of := types[typ.name]
		if of == nil || typ.name == "FleetHosts" || typ.name == "FleetHost" {
			continue
		}
		for seed := range uint64(3) {
			g := generator{m, rand.New(rand.NewPCG(seed, 1))}
			value := g.typ(typ, 0)
			text, _ := json.Marshal(value)
			decoded := reflect.New(of)
			if err := wire.Decode(text, decoded.Interface()); err != nil {
				t.Fatalf("wire.Decode refuses a %s that the schema allows: %v\n%s", typ.name, err, text)
			}
			if err := v.check(typ.name, text); err != nil {
				t.Fatalf("the schema refuses its own %s: %v\n%s", typ.name, err, text)
			}
			if !slices.Contains(unencoded, typ.name) {
				encoded := wire.AppendValue(nil, decoded.Elem().Interface())
				if err := v.check(typ.name, encoded); err != nil {
					t.Fatalf("the schema refuses a %s that wire has encoded: %v\n%s", typ.name, err, encoded)
				}
			}
			for range 10 {
				damaged, isText := g.damage(value)
				text, _ := json.Marshal(damaged)
				decodes := wire.Decode(text, reflect.New(of).Interface())
				valid := v.check(typ.name, text)
				switch {
				case decodes == nil && valid != nil:
					t.Fatalf("wire.Decode accepts a %s that the schema refuses: %v\n%s", typ.name, valid, text)
				case decodes != nil && valid == nil && !isText: // the content of a text is not described
					t.Fatalf("wire.Decode refuses a %s that the schema accepts: %v\n%s", typ.name, decodes, text)
				case valid != nil:
					rejected++
				default:
					accepted++
				}
			}
		}
	}
	if rejected < 500 || accepted < 500 {
		t.Errorf("only %d damaged values were refused and %d accepted", rejected, accepted)
	}
}

// Every type of the schema is a type of package wire, but for those of the envelope.
func TestEveryTypeIsCompared(t *testing.T) {
	m, _ := describe()
	types := goTypes()
	envelope := []string{"ErrorCode", "ErrorData", "ErrorObject", "ErrorReason", "FleetHost", "FleetHosts", "RequestId", draftName}
	for _, typ := range m.types {
		if types[typ.name] == nil && !slices.Contains(envelope, typ.name) {
			t.Errorf("%s is not compared with wire.Decode", typ.name)
		}
	}
}

// Words that an enum does not have are refused by both, other spellings that wire.Decode knows by neither.
func TestEnums(t *testing.T) {
	m, v := describe()
	types := goTypes()
	compare := func(name, text string, want bool) {
		decodes, valid := wire.Decode([]byte(text), reflect.New(types[name]).Interface()), v.check(name, []byte(text))
		if (decodes == nil) != want || (valid == nil) != want {
			t.Errorf("%s as %s: wire.Decode says %v, the schema %v", text, name, decodes, valid)
		}
	}
	for _, typ := range m.types {
		if typ.kind != enum || types[typ.name] == nil {
			continue
		}
		compare(typ.name, `"no-such"`, false)
		for _, known := range typ.values {
			compare(typ.name, `"`+known.text+`"`, true)
			compare(typ.name, `"x`+known.text+`"`, false)
		}
	}
	compare("Access", `"none"`, true)
	compare("SignalAny", `"sigterm"`, true)
	compare("SignalAny", `"Hup"`, true)
	compare("Base64", `"aGk"`, false)
	compare("Base64", `"aGl="`, false) // bits that are not zero
	compare("Base64", `"aGk=\n"`, false)
}

// The draft form of a sandbox is described, too.
func TestDraftSandboxes(t *testing.T) {
	_, v := describe()
	for text, want := range map[string]bool{
		`{"mode":"disabled"}`:         true,
		`{"mode":"disabled","new":1}`: true,
		`{"mode":"auto"}`:             false,
		`{"mode":"never"}`:            false,
		`{"mode":"auto","policy":{"type":"danger-full-access"}}`:                                                                                               true,
		`{"mode":"auto","policy":{"type":"nothing"}}`:                                                                                                          false,
		`{"mode":"auto","policy":{"type":"read-only"},"new":1}`:                                                                                                false,
		`{"mode":"require","policy":{"type":"read-only","network_access":true},"networkPolicy":"restricted","sandboxPolicyCwd":"/srv"}`:                        true,
		`{"mode":"require","policy":{"type":"read-only","network_access":"enabled"}}`:                                                                          false,
		`{"mode":"require","policy":{"type":"external-sandbox","network_access":"enabled"}}`:                                                                   true,
		`{"mode":"require","policy":{"type":"workspace-write","writable_roots":["/a","file:///b"],"read_only_access":{"type":"full-access"}}}`:                 true,
		`{"mode":"require","policy":{"type":"workspace-write","writable_roots":[1]}}`:                                                                          false,
		`{"mode":"require","fileSystemPolicy":{"kind":"unrestricted"}}`:                                                                                        true,
		`{"mode":"require","fileSystemPolicy":{"kind":"restricted","entries":[{"path":{"type":"path","path":"/x"},"access":"none"}],"glob_scan_max_depth":2}}`: true,
		`{"mode":"require","fileSystemPolicy":{"kind":"restricted","glob_scan_max_depth":0}}`:                                                                  false,
	} {
		decodes, valid := wire.Decode([]byte(text), new(wire.Sandbox)), v.check("Sandbox", []byte(text))
		if (decodes == nil) != want || (valid == nil) != want {
			t.Errorf("%s: wire.Decode says %v, the schema %v", text, decodes, valid)
		}
	}
}

// A generator makes random values that the model allows.
type generator struct {
	m *model
	*rand.Rand
}

func (g generator) typ(t *typ, depth int) any {
	if t.nullable && g.IntN(2) == 0 {
		return nil
	}
	switch t.kind {
	case object:
		return g.object(t.fields, depth)
	case enum:
		return t.values[g.IntN(len(t.values))].text
	case union:
		v := t.variants[g.IntN(len(t.variants))]
		o := g.object(v.fields, depth)
		o[t.tag] = v.value
		return o
	}
	switch t.name {
	case "PathURI":
		return "file:///srv/project/a%20b"
	case "Cwd":
		return []any{"file:///srv", "/srv"}[g.IntN(2)]
	case "AbsolutePath":
		return "/srv"
	}
	return g.use(t.of, t.of.nullable, depth)
}

func (g generator) object(fields []field, depth int) map[string]any {
	o := map[string]any{}
	for _, f := range fields {
		if f.required || depth < 6 && g.IntN(2) == 0 {
			o[f.name] = g.use(f.of, f.nullable, depth+1)
		}
	}
	return o
}

func (g generator) use(r *ref, nullable bool, depth int) any {
	if nullable && g.IntN(4) == 0 {
		return nil
	}
	switch r.shape {
	case text:
		if r.format == "base64" {
			return []any{"", "aGk=", "aGkK"}[g.IntN(3)]
		}
		return []any{"", "text", "\u00e9\n"}[g.IntN(3)]
	case boolean:
		return g.IntN(2) == 0
	case integer:
		return r.min + g.IntN(100)
	case number:
		return 0.5 + float64(g.IntN(4))
	case list:
		list := []any{}
		for range g.IntN(3) {
			list = append(list, g.use(r.elem, r.elem.nullable, depth+1))
		}
		return list
	case mapping:
		o := map[string]any{}
		for i := range g.IntN(3) {
			o[fmt.Sprint("key", i)] = g.use(r.elem, r.elem.nullable, depth+1)
		}
		return o
	case named:
		for _, t := range g.m.types {
			if t.name == r.name {
				return g.typ(t, depth)
			}
		}
	}
	return map[string]any{"any": true}
}

// replacements are values of each type, and numbers that some types do not have.
var replacements = []any{nil, true, 7, -1, 1.5, 70000, "no-such", []any{}, []any{1}, map[string]any{}, map[string]any{"x": 1}}

// damage returns the value with one change. isText: a part became another text.
func (g generator) damage(value any) (damaged any, isText bool) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 || g.IntN(8) == 0 {
			break
		}
		keys := slices.Sorted(maps.Keys(v))
		key := keys[g.IntN(len(keys))]
		o := maps.Clone(v)
		switch g.IntN(8) {
		case 0:
			delete(o, key)
		case 1:
			o["added"] = 1
		default:
			o[key], isText = g.damage(v[key])
		}
		return o, isText
	case []any:
		if len(v) > 0 && g.IntN(2) == 0 {
			list := slices.Clone(v)
			i := g.IntN(len(list))
			list[i], isText = g.damage(list[i])
			return list, isText
		}
	}
	damaged = replacements[g.IntN(len(replacements))]
	_, isText = damaged.(string)
	return damaged, isText
}

// placeholders stand in transcripts for what differs from run to run.
var placeholders = map[string]string{
	"<number>": `1`, "<usage>": `{"wallUs":1,"blockedUs":0}`, "<shell>": `{"name":"sh","path":"/bin/sh"}`,
	"<info>": `{"shell":{"name":"sh","path":"/bin/sh"}}`, "<providerId>": `"p"`, "<userHomeDir>": `null`, "<tempDir>": `"/tmp"`,
	"<directories>": `["/tmp"]`, "<cwd>": `"/"`,
	"<detail>": `{"activity":"running","text":"","source":"system","asOfMs":1,"silentMs":1}`,
}

var (
	placeholder    = regexp.MustCompile(`(?:"[a-zA-Z]+":|,)<[a-zA-Z]+>`)
	transcriptLine = regexp.MustCompile(`^([A-Z]?)([><!]) ?(.*)$`)
)

type envelopeOf struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// All that the transcripts of the server contain fits the schema: every message of the server, every answer its request, and every
// request that has a result.
func TestTranscriptsFit(t *testing.T) {
	_, v := describe()
	files, err := filepath.Glob("../../internal/server/testdata/transcripts/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("found only %d transcripts: %v", len(files), err)
	}
	results, notes := 0, 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		asked := map[string]string{}    // texts of requests, by connection and id
		methods := map[string]string{}  // their methods
		connections := map[string]int{} // how often each was cut
		for line := range strings.Lines(string(content)) {
			part := transcriptLine.FindStringSubmatch(strings.TrimSpace(line))
			if part == nil {
				continue
			}
			text := placeholder.ReplaceAllStringFunc(part[3], func(s string) string {
				at := strings.Index(s, "<")
				return s[:at] + placeholders[s[at:]]
			})
			var m envelopeOf
			if part[2] == "!" {
				connections[part[1]]++
				continue
			} else if json.Unmarshal([]byte(text), &m) != nil {
				if part[2] == "<" {
					t.Errorf("%s: the server does not send JSON: %s", file, text)
				}
				continue
			}
			id := fmt.Sprint(part[1], connections[part[1]], m.ID)
			switch {
			case part[2] == ">" && m.ID != nil:
				asked[id], methods[id] = text, m.Method
			case part[2] == ">":
			case m.Method != "":
				notes++
				fallthrough
			default:
				if err := v.check("ExecFromServer", []byte(text)); err != nil {
					t.Errorf("%s: the server sends what the schema refuses: %v\n%s", file, err, text)
				}
			}
			if part[2] == "<" && m.Result != nil {
				results++
				if err := v.check("ExecFromClient", []byte(asked[id])); err != nil {
					t.Errorf("%s: the server answers a request that the schema refuses: %v\n%s", file, err, asked[id])
				}
				if err := v.check(resultOf(methods[id]), m.Result); err != nil {
					t.Errorf("%s: the answer to %s: %v\n%s", file, methods[id], err, text)
				}
			}
		}
	}
	if results < 100 || notes < 40 {
		t.Errorf("only %d results and %d notifications were compared", results, notes)
	}
}

// resultOf is the name of the type of a method's result.
func resultOf(method string) string {
	for _, row := range wire.ExecCalls {
		if row.Name == method && row.Result != nil {
			return reflect.TypeOf(row.Result).Elem().Name()
		}
	}
	return "there is no method " + method
}

// decoded are parts of results that recordings have in a form for people.
var decoded = regexp.MustCompile(`"shell":"LOGIN"|"toml":\{|AtMs":"|"(chunk|dataBase64|body)":`)

// The recordings of the reference have errors and results of the forms that the schema describes. They do not name
// the methods.
func TestRecordingsFit(t *testing.T) {
	m, v := describe()
	var results []string
	for _, c := range m.exec {
		if c.result != nil && slices.ContainsFunc(c.result.typ.fields, func(f field) bool { return f.required }) {
			results = append(results, c.result.name)
		}
	}
	checked := 0
	err := filepath.WalkDir("../../interop/testdata", func(name string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".txtar") {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(content)) {
			text, isObservation := strings.CutPrefix(strings.TrimSpace(line), "|")
			var m envelopeOf
			if !isObservation || json.Unmarshal([]byte(text), &m) != nil {
				continue
			}
			fits := true
			switch {
			case m.Error != nil && m.Error[0] == '{':
				fits = v.check("ErrorObject", m.Error) == nil
			case m.Result != nil && string(m.Result) != "{}" && !decoded.Match(m.Result):
				fits = slices.ContainsFunc(results, func(name string) bool { return v.check(name, m.Result) == nil })
			default:
				continue
			}
			if checked++; !fits {
				t.Errorf("%s: the schema has no such answer: %s", name, text)
			}
		}
		return nil
	})
	if err != nil || checked < 300 {
		t.Errorf("only %d answers were compared: %v", checked, err)
	}
}
