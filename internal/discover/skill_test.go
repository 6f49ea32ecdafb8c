package discover

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/wire"
)

func describeText(text, metadata string) (wire.InstalledSkill, error) {
	found := wire.DiscoveredSkill{Instructions: wire.CapabilityFile{Path: wire.PathToURI("/skills/the dir/SKILL.md"), Contents: text}}
	if metadata != "" {
		found.Metadata = &wire.CapabilityFile{Contents: metadata}
	}
	return describe(found)
}

func TestFrontMatter(t *testing.T) {
	long := strings.Repeat("n", maxName)
	tests := []struct{ text, name, description, short string }{ // no description: refused
		{"---\nname: n\ndescription: d\n---\nbody", "n", "d", ""},
		{"---\r\nname: n\r\ndescription: d\r\n---\r\n", "n", "d", ""},
		{"--- \nname: n\ndescription: d\n ---\n", "n", "d", ""},
		{"---\nname: n\ndescription: |\n  a\n   b\n---\n", "n", "a b", ""},
		{"---\nname: n\ndescription: d\nmetadata:\n  short-description: s\n---\n", "n", "d", "s"},
		{"---\nname: 007\ndescription: True\n---\n", "007", "True", ""},
		{"---\nname: ''\ndescription: d\n---\n", "the dir", "d", ""},
		{"---\ndescription: d\n---\n", "the dir", "d", ""},
		{"---\nname: a: b\ndescription: it's: this # not this\n---\n", "a: b", "it's: this", ""},
		{"---\nname: " + long + "\ndescription: d\n---\n", long, "d", ""},
		{"---\nname: n\nunknown: [1, {a: b}]\ndescription: d\n---\n", "n", "d", ""},
		{"---\nname: n\ndescription: d\nx: 1\nx: 2\n<<: 5\n---\n", "n", "d", ""},
		{"---\nname: n\ndescription: d\nmetadata:\n---\n", "n", "d", ""},
		{"---\nname: !!str null\ndescription: &a d\nmetadata: {short-description: *a}\n---\n", "null", "d", "d"},
		{"---\nname: n\ndescription: {a: b}\n---\n", "n", "{a: b}", ""},
		{"---\nname: n\ndescription: [a] [b]\nhint: `x\n---\n", "n", "[a] [b]", ""},
		{"---\nname: n\ndescription: |\n  a: b: c\nhint: [\n---\n", "n", "a: b: c", ""},

		{"---\nname: " + long + "n\ndescription: d\n---\n", "", "", ""},
		{"---\nname: n\n---\n", "", "", ""},
		{"---\nname: n\ndescription: ''\n---\n", "", "", ""},
		{"---\nname: [n]\ndescription: d\n---\n", "", "", ""},
		{"---\nname: n\nname: m\ndescription: d\n---\n", "", "", ""},
		{"---\nname: n\ndescription: d\nmetadata: [m]\n---\n", "", "", ""},
		{"---\nname: n\ndescription: d\nmetadata: null\n---\n", "", "", ""},
		{"---\nname: n\n<<: {description: d}\n---\n", "", "", ""},
		{"---\nname: n\ndescription: d\n...\nx: y\n---\n", "", "", ""},
		{"---\nname: n\ndescription: d\n[x]: y\n---\n", "", "", ""},
		{"---\nname: !!null n\ndescription: d\n---\n", "", "", ""},
		{"---\nname: n\ndescription: %d\n---\n", "", "", ""},
		{"---\nname: n\ndescription: d\n", "", "", ""},
		{"\n---\nname: n\ndescription: d\n---\n", "", "", ""},
		{"---\n---\n", "", "", ""},
		{"", "", "", ""},
	}
	for _, tt := range tests {
		skill, err := describeText(tt.text, "")
		short := ""
		if skill.ShortDescription != nil {
			short = *skill.ShortDescription
		}
		if (err == nil) != (tt.description != "") || skill.Name != tt.name || skill.Description != tt.description || short != tt.short {
			t.Errorf("%q: got %+v, %v", tt.text, skill, err)
		}
	}
}

func TestSkillMetadata(t *testing.T) {
	tool := func(s string) string { return "dependencies: {tools: [" + s + "]}" }
	const nulls = `"description":null,"transport":null,"command":null,"url":null,`
	tests := []struct{ yaml, dependencies, policy string }{
		{"policy: {}", "null", `{"allowImplicitInvocation":null,"products":[]}`},
		{"policy: {allow_implicit_invocation: false, products: [codex, CHATGPT]}", "null", `{"allowImplicitInvocation":false,"products":["codex","chatgpt"]}`},
		{"policy: {products: [Codex]}", "null", "null"},
		{"policy: {products: null}", "null", "null"},
		{"policy: {products: [null]}", "null", "null"},
		{"policy: {products: [!x codex]}", "null", "null"},
		{"policy: {products: [!codex ~]}", "null", `{"allowImplicitInvocation":null,"products":["codex"]}`},
		{"policy:\n  products:\ninterface: null", "null", `{"allowImplicitInvocation":null,"products":[]}`},
		{"policy: {allow_implicit_invocation: yes}", "null", "null"},
		{"policy: {}\npolicy: {}", "null", "null"},
		{"policy: {}\n---\n", "null", "null"},
		{"policy: {}\ndependencies: {tools: null}", "null", "null"},
		{tool("{type: t, value: v, oauth: {callback_port: 08}}"), "null", "null"},
		{tool("{type: t, value: v, oauth: {callback_port: 8.0}}"), "null", "null"},
		{tool("{type: t, value: v, oauth: {callback_port: '8'}}"), "null", "null"},
		{tool("{type: t, value: v, oauth: {callback_port: null, callbackPort: 8}}"), "null", "null"},
		{tool("{type: t, value: v, oauth: {callback_port: +0x1F}}"), `{"tools":[{"type":"t","value":"v",` + nulls + `"oauthCallbackPort":31}]}`, "null"},
		{"policy: {allow_implicit_invocation: maybe}", "null", "null"},
		{"policy: 5", "null", "null"},
		{"interface: 5\npolicy: {}", "null", "null"},
		{"[", "null", "null"},
		{tool(""), "null", "null"},
		{tool("{type: mcp}, {value: v}, {type: '', value: v}"), "null", "null"},
		{tool("{type: mcp, value: v, oauth: {callback_port: 8}}"), `{"tools":[{"type":"mcp","value":"v",` + nulls + `"oauthCallbackPort":8}]}`, "null"},
		{tool("{type: mcp, value: v, oauth: {callbackPort: 8}}"), `{"tools":[{"type":"mcp","value":"v",` + nulls + `"oauthCallbackPort":8}]}`, "null"},
		{tool("{type: mcp, value: v, oauth: {callback_port: 70000}}"), "null", "null"},
		{tool("{type: cli, value: v, description: 'a  b', transport: t, command: c, url: u}"),
			`{"tools":[{"type":"cli","value":"v","description":"a b","transport":"t","command":"c","url":"u","oauthCallbackPort":null}]}`, "null"},
		{tool("{type: mcp, value: v, description: " + strings.Repeat("d", maxText+1) + "}, {type: " + strings.Repeat("t", maxName+1) + ", value: v}"),
			`{"tools":[{"type":"mcp","value":"v",` + nulls + `"oauthCallbackPort":null}]}`, "null"},
	}
	for _, tt := range tests {
		skill, err := describeText("---\nname: n\ndescription: d\n---\n", tt.yaml)
		dependencies, _ := json.Marshal(skill.Dependencies)
		policy, _ := json.Marshal(skill.Policy)
		if err != nil || string(dependencies) != tt.dependencies || string(policy) != tt.policy {
			t.Errorf("%s: got %s and %s, %v", tt.yaml, dependencies, policy, err)
		}
	}
}

// A file of an untrusted plugin must cost neither much time nor the stack.
func TestHostileYAML(t *testing.T) {
	var keys, aliases strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&keys, "k%d: v\n", i)
	}
	aliases.WriteString("a0: &a0 [x, x]\n")
	for i := range 60 {
		fmt.Fprintf(&aliases, "a%d: &a%d [*a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i)
	}
	for name, text := range map[string]string{
		"brackets":  "x: " + strings.Repeat("[", 500_000),
		"braces":    "x: " + strings.Repeat("{a: ", 15_000),
		"sequences": "x:\n  " + strings.Repeat("- ", 30_000),
		"keys":      keys.String(),
		"aliases":   aliases.String(),
		"repairs":   strings.Repeat("a: [b\n", maxYAML/6-1),
		"comments":  strings.Repeat("- a #c\n\n#d\n", maxYAML/11-1),
	} {
		begin := time.Now()
		if _, err := describeText("---\n"+text+"\n---\n", text); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if took := time.Since(begin); took > 30*time.Second { // a second or two, if the machine is not busy
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestCompact(t *testing.T) {
	for text, want := range map[string]string{
		` { "b" : [ 1.0, 1E2, 1e-05, -0, -0.0 ] , "a":null } `: `{"b":[1.0,1e+2,1e-05,0,-0.0],"a":null}`,
		`{"a":1,"b":true,"a":2}`:                               `{"a":2,"b":true}`,
		`"\u00e9\u2028\/<&\u0007\b\n\"\\\ud83d\ude00"`:         "\"é\u2028/<&\\u0007\\b\\n\\\"\\\\😀\"",
		`"\ud800"`:       "",
		`"\ude00\ud83d"`: "",
		`"\\ud800"`:      `"\\ud800"`,
		strings.Repeat("[", maxJSONDepth) + strings.Repeat("]", maxJSONDepth):     strings.Repeat("[", maxJSONDepth) + strings.Repeat("]", maxJSONDepth),
		strings.Repeat("[", maxJSONDepth+1) + strings.Repeat("]", maxJSONDepth+1): "",
	} {
		got, err := compact(json.RawMessage(text))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	sorted := [][]string{
		{"1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0", "1.9.0", "1.10.0", "local"},
		{"1.10", "1.9"}, // compared as text
		{"10", "9"},
		{"1.0.0", "v2.0.0", "zzz", "local"},
		{"1.0", "1.0.0"},
		{"1.0.0+a", "1.0.0+b"},
	}
	for _, want := range sorted {
		got := slices.Clone(want)
		slices.Reverse(got)
		slices.SortFunc(got, compareVersions)
		if !slices.Equal(got, want) {
			t.Errorf("sorted %q, want %q", got, want)
		}
	}
}
