//go:build interop

package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
)

// TestDiscoverYAML asks for many skills in one request, because a server per skill would be slow, and compares them one by one.
func TestDiscoverYAML(t *testing.T) {
	t.Parallel()
	for _, x := range []exchange{
		{name: "many fronts", play: func(p *player) {
			playSkillsAtOnce(p, fronts(), func(f *finder, dir, text string) { f.putRaw(dir+"/SKILL.md", "---\n"+text+"\n---\nbody\n") })
		}},
		{name: "many metadata", play: func(p *player) {
			playSkillsAtOnce(p, metadata(), func(f *finder, dir, text string) {
				f.skill(dir, "name: a\ndescription: d")
				f.putRaw(dir+"/agents/openai.yaml", text)
			})
		}},
		{name: "many names", play: func(p *player) {
			playSkillsAtOnce(p, append(manifests(), `["x"]`, `["x","y"]`, `[null]`, `[5]`, "[] x", `[{}]`, `{"name":"n","apps":{},"interface":5}`), func(f *finder, dir, text string) {
				f.skill(dir, "name: a\ndescription: d")
				f.putRaw(dir+"/.codex-plugin/plugin.json", text)
			})
		}, differs: []difference{{`"[]"`, listManifest, noNamespace}, {`"[\"x\"]"`, listManifest, noNamespace}}},
		{name: "many plugins", play: playPluginsAtOnce},
		{name: "many manifests below", play: playManifestsBelow},
	} {
		x.compares = whatWasRead
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			playBoth(t, x, inUserDirs())
		})
	}
}

const (
	listManifest = "a manifest is an object: lists do not say which value is which"
	noNamespace  = `{"dependencies":null,"description":"d","name":"a","policy":null,"shortDescription":null}`
)

// playSkillsAtOnce writes a skill for each text and records the answer about each.
func playSkillsAtOnce(p *player, texts []string, write func(f *finder, dir, text string)) {
	f := newFinder(p)
	for i, text := range texts {
		write(f, fmt.Sprintf("codex/skills/%03d", i), text)
	}
	f.restart()
	var reply struct {
		Result struct {
			Skills   []map[string]any
			Warnings []string
		}
	}
	f.must(json.Unmarshal([]byte(f.c.call("capabilities/discoverV2", map[string]any{"cwd": "file://" + f.path("ws")})), &reply))
	became := map[string]map[string]any{}
	for _, skill := range reply.Result.Skills {
		dir := path.Base(path.Dir(skill["path"].(string)))
		delete(skill, "path")
		delete(skill, "discoveryRoot")
		became[dir] = skill
	}
	for i, text := range texts {
		f.p.note(fmt.Sprintf("%q", shorten(text)), canonical(became[fmt.Sprintf("%03d", i)]))
	}
	f.p.note("warnings", canonical(reply.Result.Warnings))
}

// putRaw writes a file as it is.
func (h *userDirs) putRaw(name, content string) {
	h.t.Helper()
	h.put(name, "")
	h.must(os.WriteFile(h.path(name), []byte(content), 0o644))
}

// values are YAML values of every kind.
var values = []string{"", "null", "~", "Null", "NULL", "nULL", `""`, "''", "' '", "x", "'x'", `"x"`, "5", "-5", "+5", "05", "0o17", "0b11", "0x1F", "0X1F", "1e3", "1.50", ".5", "5.", ".inf",
	"-.Inf", ".nan", "12345678901234567890123", "1_000", "true", "True", "TRUE", "tRUE", "yes", "no", "on", "y", "2020-01-01", "1:30", "[]", "{}", "[x]", "{x: y}", "[null]", "!!str 5", "!!str null",
	"!!int 5", "!!int '5'", "!!null x", "!!bool true", "!!float 5", "!!binary eA==", "!x y", "!x [y]", "!x", "! 5", "&a x", "&a", "|\n  x\n  y", ">-\n  x\n\n  y", "x\n  y", "x #y", "x#y",
	"#x", "- x", "x: y", "x:y", "x:", "'x", "\"x", "\"\\x41\\u0042\"", "\"\\q\"", "'it''s'", "\"a\\\n  b\"", "x, y", "a]b", "%x", "`x", "@@", "?x", "? x", "-x", ":x", ": x", "\tx", "x\t# c", "é", "\u2028", "\u0085", "a\u00a0b",
	"\ufeffx", "<<", "=", "*a", "\x01", "\u0080", "\U0001f600", "\"\\ud83d\\ude00\"", "[x, ]", "{x}", "{x: y, }", "[x", "{x", "!!set {x}", "!<tag:yaml.org,2002:str> 5", "!!str", "!!map {}", "!!seq []", "!x true", "!!str true", "!!int true", "!!null", "!!null ~", "!!null ''", "[x] y", "[x] [y]", "{x} y", "[x]#", "[x] # y", "{x} {y}", "@x", "@", "`", "[", "{", "]", "}", ",", "[a: b", "x`", "%", "&", "*", "!<x", "!x!y z", "|x", ">x", "|", "-", "--", "?", ":", "x :y", "x : y", "x::y", "# x: y", "x:\ty", "x:y: z", "'x' y", "'x': y", "x\ty: z", " x: y # z", "`x # y", "[x # y", "&a x: y", "*a: y", "!x [", "!x `", "<x: y>", "=: x", "~: x", "null: x", "5: 6"}

func fronts() []string {
	list := []string{"name: a\ndescription: d\nmetadata: {}", "name: a\n<<: {description: d}", "<<: {name: a, description: d}", "name: a\ndescription: d\n<<: 5", "name: a\ndescription: d\n<<: [{x: y}]",
		"x: &a {name: b}\n<<: *a\ndescription: d", "metadata:\n  <<: {short-description: s}\nname: a\ndescription: d", "name: &a x\ndescription: *a", "x: &a {short-description: s}\nname: a\ndescription: d\nmetadata: *a",
		"description: d\nname: a\nx: 1\nx: 2", "description: d\nname: a\nx: {y: 1, y: 2}", "name: a\ndescription: d\ndescription: d", "{name: a, description: d}", "{name: a, description: d", "[name, description]", "x", "# only a comment",
		"name: a\ndescription: d\n...\nx: y", "name: a\n\n\ndescription: d", " name: a\n description: d", "name: a\n description: d", "  name: a\ndescription: d", "name: a\ndescription: d\n---x", "%YAML 1.2\nname: a\ndescription: d",
		"? name\n: a\n? description\n: d", "? [x]\n: y\nname: a\ndescription: d", "5: x\nname: a\ndescription: d", "null: x\nname: a\ndescription: d", "true: x\nname: a\ndescription: d", "!!str name: a\ndescription: d", "'name': a\n\"description\": d",
		"name: a\ndescription: d\nmetadata: {short-description: s, short-description: t}", "name: a\ndescription: d\nmetadata: {short_description: s}", "name: a\ndescription: d\nmetadata: {shortDescription: s}",
		"name: a\ndescription: d\nmetadata: {short-description: [s]}", "name: a\ndescription: d\nmetadata: {short-description: null}", "name: a\ndescription: d\nmetadata: {x: [1], 5: 6}", "name: a\ndescription: d\nlicense: a: b", "name: a\ndescription: d\nx: a: b\nx: c",
		"name: a\ndescription: [x]: y", "name: a\ndescription: 'x': y", "name: a\ndescription: x: y\n  z", "name: a\ndescription: x: y # z", "name: a\ndescription: x: y #z: w", "name: a\ndescription: - x: y", "name: a\ndescription: x: 'y'", "name: a\ndescription: -: x: y",
		"name: a\ndescription: ? x: y", "name: a\ndescription: @x: y", "name: a\ndescription: `x: y", "name: a\ndescription: %x: y", "name: a\ndescription: *x: y", "name: a\ndescription: !x: y", "name: a\ndescription: &x: y", "name: a\ndescription: >x: y", "name: a\ndescription: }x: y",
		"name: a\n  description: x: y", "- name: x: y", "name: a\ndescription: x:  y", "name: a\ndescription: x:\ty", "name: a\ndescription: x: ", "name: a\ndescription: x:", "name: a\ndescription:  x: y", "name: a\ndescription:x: y", "name: a\ndescription: it's x: y", "name: a\ndescription: \\x: y",
		"name: a\ndescription: x: \"y\"", "name: a\ndescription: http://x: y", "name: a: b\ndescription: c\nmetadata:\n  short-description: d: e", "name: a\ndescription: x: y\nbad: [", "name: a\n# x: y: z\ndescription: b: c", "name: a\ndescription: b: c\nx: |\n  d: e: f",
		"name : a\ndescription: b: c", "a b: c: d\nname: a\ndescription: e", "name: a\ndescription: d\nx:\n  - a: b: c", "'name': x: y\ndescription: d", "name: a\ndescription: d\nmetadata:\n  - x", "name: a\ndescription: d\nx: !!binary '*'",
		"name: a\ndescription: d\nx: !!int y", "name: a\ndescription: d\nx: 0x1", "name: a\ndescription: d\nx: *none", "name: a\ndescription: d\nx: &x [*x]", "name: a\ndescription: d\nx: \"\\q\"", "Name: a\nDESCRIPTION: d", "name: a\ndescription: d\n\tx: y", "name: a\tb\ndescription: d",
		"name: " + strings.Repeat("é", 64) + "\ndescription: d", "name: " + strings.Repeat("é", 65) + "\ndescription: d", "name: a\ndescription: |\n\n\n  ", "name: a\ndescription: \"\\n\"", "name: a\ndescription: \"\u00a0\u2003\"", "name: \"\u00a0\"\ndescription: d",
		"name: a\u3000b\ndescription: \"\u200bx\"", "name: a\ndescription: d\nx: " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "name: a\ndescription: d\nx: " + strings.Repeat("[", 140) + strings.Repeat("]", 140), "name: a\r\ndescription: d\r\nmetadata:\r\n  short-description: x: y",
		"name: a\rdescription: d", "name: a\ndescription: d\n- x", "name: a\ndescription: d\nx", "name: a\ndescription: d\n\"x", "name: a\ndescription: d\n: x", "name: a\ndescription: d\n[x]: y", "name: a\ndescription: d\n{x: z}: y",
		"name: a\ndescription:\tx: y", "name: a\ndescription: x: y\r", "a:b: c: d\nname: a\ndescription: e", "name: a\ndescription : x: y", "name: a\ndescription: d\nx: [a] [b]", "name: a\ndescription: d\nx: [a] b: c", "name: a\ndescription: d\nx:\n  - `a", "name: a\ndescription: d\nx:\n  - b: `a",
		"name: a\ndescription: d\nx: {a: b: c}", "name: a\ndescription: |\n  x: y: z\nx: [", "name: a\ndescription: >\n  x: [y\nz: `", "name: a\ndescription: \"x: y\nz: [", "name: a\ndescription: d\nx: [a,\n  b: c: d]", "name: a\ndescription: d\nx: [\n  a]", "name: a\ndescription: d\nx: [\n  a]\ny: `",
		"name: a\ndescription: d\n...", "name: a\ndescription: d\n...\n...", "# c\nname: a\ndescription: d", "name: a\ndescription: d\n#: [x: y", "name: a\ndescription: d #\nx: #y: z: `", "name: a\ndescription: d\nx: a #b: c: `", "name: a\ndescription: 'd'#x: y", "name: 'a: b\ndescription: d", "name: a\ndescription: x: 'y' # z: 'w'",
		"name: a\n\ndescription: x: y\n\n\n", "name: x: y\nname: z\ndescription: d", "name: a\ndescription: d\n" + strings.Repeat("k: v\n", 20_000),
	}
	for _, v := range values {
		list = append(list, "description: d\nname: "+v, "name: a\ndescription: "+v, "name: a\ndescription: d\nmetadata:\n  short-description: "+strings.ReplaceAll(v, "\n", "\n  "))
	}
	for _, v := range []string{"null", "~", "", "5", "x", "[]", "{}", "''", "!x {}", "{short-description: s}", "!x {short-description: s}", "[[]]", "[s]", "!!map {short-description: s}", "!!null ''"} {
		list = append(list, "name: a\ndescription: d\nmetadata: "+v)
	}
	return list
}

func metadata() []string {
	list := []string{"", "---\npolicy: {}", "---\npolicy: {}\n---\npolicy: {}", "policy: {}\n...\nx", "null", "~", "5", "x", "[]", "{}", "- policy: {}", "[{}, {}, {}]", "# x", "\ufeffpolicy: {}", "%YAML 1.1\n---\npolicy: {}", "policy: {}\n---\n", "---\n---\npolicy: {}",
		"policy: {}\nx: *y", "policy: {}\nx: 1\nx: 2", "policy: {}\ninterface: {}\ninterface: {}", "<<: {policy: {}}", "x: &x {products: [codex]}\npolicy: *x", "x: &x {products: [codex]}\npolicy: {<<: *x}", "policy: {allow_implicit_invocation: true, allow_implicit_invocation: true}",
		"policy: !x {}", "policy: []", "policy: [true, [codex]]", "policy: ''", "policy: {products: !x [codex]}", "policy: {products: [codex, codex]}", "policy: {products: [Codex]}", "policy: {products: [!x codex]}", "policy: {products: ['codex']}", "policy: {products: [codex: null]}",
		"policy: {products: [{codex: null}]}", "policy: {products: [{codex: {}}]}", "policy: {products: [{codex: ~}]}", "policy: {products: [!codex]}", "policy: {products: [!codex ~]}", "policy: {products: [!codex '']}", "policy: {products: [{codex: x}]}", "policy: {products: [null]}", "policy: {products: [CHATGPT, ATLAS]}", "policy: {products: [ChatGPT]}", "policy: {products: [chatGPT]}",
		"policy: {products: {codex: x}}", "policy: {products: [ codex , ]}", "policy: {products: []}\ndependencies: 5", "policy: {}\ndependencies: []", "policy: {}\ndependencies: ''", "interface: []\npolicy: {}", "interface: ['x']\npolicy: {}", "interface: [a,b,c,d,e,f]\npolicy: {}", "interface: [a,b,c,d,e,f,g]\npolicy: {}",
		"dependencies: [[{type: a, value: b}]]", "dependencies: {tools: [[a, b, c, d, e, f]]}", "dependencies: {tools: {type: a, value: b}}", "dependencies: {tools: [x]}", "dependencies: {tools: [null]}", "dependencies: {tools: [{}]}", "dependencies: {tools: [{type: a, value: b, oauth: []}]}",
		"dependencies: {tools: [{type: a, value: b, oauth: {callback_port: 1, callbackPort: 2}}]}", "dependencies: {tools: [{type: a, value: b, oauth: {callbackPort: 2, callback_port: 1}}]}", "dependencies: {tools: [{type: a, value: b, oauth: {callback_port: null, callbackPort: 2}}]}", "dependencies: {tools: [{type: a, value: b, oauth: {callback_port: 5, callback_port: 5}}]}",
		"dependencies: {tools: [{type: a, value: b, x: y, x: z}]}", "dependencies: {tools: [{type: a, value: b, oauth: {x: y}}]}", "dependencies: {tools: [{type: a, type: c, value: b}]}", "dependencies: {tools: [{type: ' a  b ', value: ' c ', url: ' '}]}",
		"x: {y: {y: 1, y: 2}}\npolicy: {}", "5: x\npolicy: {}", "[x]: y\npolicy: {}", "? policy\n: {}", "policy:\n  products:\n  - codex\n  - atlas\n  allow_implicit_invocation: off", "policy: {}\nx: !!binary '*'", "policy: {}\nx: &x [*x]", "policy: {}\n\tx: y", "policy: {}\nx: a: b", "interface: {display_name: a: b}\npolicy: {}",
		"interface: {default_prompt: 5}\npolicy: {}", "interface: {icon_small: null}\npolicy: {}", "interface: {icon_small: {}}\npolicy: {}", "interface: {icon_small: ../x}\npolicy: {}", "interface: {unknown: [}\npolicy: {}", "permissions: 5\npolicy: {}", "permissions: {x: y}\npolicy: {}", "permissions: {network: {enabled: 5}}\npolicy: {}", "permissions: null\npolicy: {}",
		"policy: {}\nname: [x]", "policy: {}\nversion: {x: [y]}", "POLICY: {}", "policy: {Products: 5}", "interface: {brand_color: '#fff'}\npolicy: {}",
	}
	for _, v := range values {
		list = append(list, "policy:\n  allow_implicit_invocation: "+v, "policy:\n  products: "+v, "policy:\n  products:\n  - codex\n  - "+v, "policy: {}\ninterface:\n  display_name: "+v, "policy: {}\nx: "+v,
			"dependencies:\n  tools:\n  - value: b\n    type: "+strings.ReplaceAll(v, "\n", "\n    "), "dependencies:\n  tools:\n  - value: b\n    type: a\n    url: "+strings.ReplaceAll(v, "\n", "\n    "),
			"dependencies:\n  tools:\n  - value: b\n    type: a\n    oauth:\n      callback_port: "+strings.ReplaceAll(v, "\n", "\n      "), "dependencies:\n  tools:\n  - value: b\n    type: a\n    oauth: "+strings.ReplaceAll(v, "\n", "\n      "))
	}
	for _, v := range []string{"null", "~", "", "5", "x", "[]", "{}", "''", "!x {}", "!x", "[{}]"} {
		list = append(list, "policy: {}\ninterface: "+v, "policy: {}\ndependencies: "+v, "policy: "+v, "policy: {}\ndependencies:\n  tools: "+v)
	}
	for _, n := range []string{"0", "-0", "65535", "65536", "-1", "8.0", "8e0", "0x8", "0o10", "0b1", "'8'", "+8", "1_0", "08", "true", "!!int 8", "!!str 8", "!x 8"} {
		list = append(list, "dependencies: {tools: [{type: a, value: b, oauth: {callback_port: "+n+"}}]}", "dependencies: {tools: [{type: a, value: b, oauth: {callbackPort: "+n+"}}]}")
	}
	return list
}

// playPluginsAtOnce installs a plugin for each manifest.
func playPluginsAtOnce(p *player) {
	f := newFinder(p)
	texts := manifests()
	for i, text := range texts {
		dir := f.plugin(fmt.Sprintf("mkt/p%03d/1.0.0", i), text)
		f.put(dir+"/.mcp.json", "{}")
		f.put(dir+"/.app.json", "{}")
		f.put(dir+"/m.json", "m")
		f.put(dir+"/a.json", "a")
		f.put(dir+"/bad.json", "\xff")
	}
	f.restart()
	var reply struct {
		Result struct {
			Plugins  []map[string]any
			Warnings []string
		}
	}
	f.must(json.Unmarshal([]byte(f.c.call("capabilities/discoverV2", map[string]any{"cwd": "file://" + f.path("ws")})), &reply))
	became := map[string]string{}
	for _, plugin := range reply.Result.Plugins {
		id := plugin["id"].(string)[:len("p000")]
		became[id] = f.plain(strings.ReplaceAll(canonical(shortened(plugin)), id, "PLUGIN"))
	}
	for i, text := range texts {
		f.p.note(fmt.Sprintf("%q", shorten(text)), became[fmt.Sprintf("p%03d", i)])
	}
	f.p.note("warnings", canonical(reply.Result.Warnings))
}

func manifests() []string {
	list := []string{"", "{}", "null", "5", `"x"`, "[]", " {} ", "{} x", "{}{}", "{}\n", "{} 5", "{} ]", "{} }", "{},", "\ufeff{}", "{", "{\"name\":\"a\",}", `{"name":"a" "x":1}`, `{name:"a"}`, `{'name':'a'}`, "{\"name\":\"a\"} // x", "{\"name\":\"\x01\"}", "{\"name\":\"a\\u0000b\"}", `{"name":"\ud800"}`, `{"x":"\ud800"}`,
		`{"\u006eame":"esc"}`, `{"Name":"a"}`, `{"NAME":"a"}`, `{"x":1,"x":2}`, `{"x":{"y":1,"y":2}}`, `{"interface":{"displayName":"a","displayName":"b"}}`, `{"interface":{"DisplayName":"a"}}`, `{"interface":{"display_name":"a"}}`, `{"interface":[]}`, `{"interface":""}`,
		`{"mcpServers":{}}`, `{"mcpServers":{ "b" : { "z" : 1 , "a" : [ 1.0, 1e2, -0, 12345678901234567890, 1E400 ] } , "a":"\u00e9\/<" } }`, `{"mcpServers":{"b":1,"a":2}}`, `{"mcpServers":{"a":1,"a":2}}`, `{"mcpServers":{"mcpServers":{"x":{}}}}`, `{"mcpServers":{"a":1.0}}`, `{"mcpServers":{"a":1e2}}`, `{"mcpServers":{"a":-0}}`, `{"mcpServers":{"a":0.1e-7}}`,
		`{"mcpServers":{"a":12345678901234567890}}`, `{"mcpServers":{"a":123456789012345678901}}`, `{"mcpServers":{"a":1e400}}`, `{"mcpServers":{"a":"é\u00e9\u2028\/<>&\u0007\b\f\n\r\t\"\\\u007f"}}`, `{"mcpServers":{"a":"\ud83d\ude00"}}`, `{"mcpServers":{"é":null,"A":true,"":[]}}`, "{\"mcpServers\":{\n  \"a\": {\n    \"b\": []\n  }\n}}", `{"mcpServers":{"a":1e16}}`, `{"mcpServers":{"a":1e15}}`, `{"mcpServers":{"a":123456789.125}}`, `{"mcpServers":{"a":1e-5}}`, `{"mcpServers":{"a":5e-324}}`, `{"mcpServers":{"a":-0.0}}`, `{"mcpServers":{"a":1.7976931348623157e308}}`, `{"mcpServers":{"a":-9223372036854775809}}`, `{"mcpServers":{"a":18446744073709551615}}`, `{"mcpServers":{"a":18446744073709551616}}`,
		`{"mcpServers":["./m.json"]}`, `{"mcpServers":true}`, `{"mcpServers":""}`, `{"mcpServers":"./m.json"}`, `{"mcpServers":"./bad.json"}`, `{"mcpServers":"./skills"}`, `{"mcpServers":"m.json"}`, `{"mcpServers":"./x/../m.json"}`, `{"mcpServers":"././m.json"}`, `{"mcpServers":".//m.json"}`, `{"mcpServers":" ./m.json "}`, `{"mcpServers":"./"}`, `{"mcpServers":"."}`, `{"mcpServers":"./m.json/"}`, `{"mcpServers":"./m.json\u0000"}`, `{"mcpServers":"./m.json","mcpServers":{}}`, `{"mcp_servers":{}}`,
		`{"apps":"./a.json"}`, `{"apps":"./none"}`, `{"apps":null}`, `{"apps":{}}`, `{"apps":[]}`, `{"apps":5}`, `{"apps":""}`, `{"apps":"./bad.json"}`, `{"apps":"./skills"}`, `{"apps":"./../x"}`, `{"apps":"/a.json"}`, `{"apps":"./a.json","mcpServers":"./m.json"}`,
		`{"name":null}`, `{"name":" "}`, `{"name":"\t"}`, `{"name":" p "}`, `{"name":"\u00a0"}`, `{"name":["a"]}`, `{"name":"a:b"}`, `{"name":"é"}`, `{"name":"` + strings.Repeat("n", 200) + `"}`, `{"name":"` + strings.Repeat("n", 61) + `"}`, `{"name":"` + strings.Repeat("n", 62) + `"}`, `{"name":"` + strings.Repeat("n", 64) + `"}`, `{"name":"` + strings.Repeat("n", 65) + `"}`, `{"name":"` + strings.Repeat("n", 124) + `"}`, `{"name":"` + strings.Repeat("n", 125) + `"}`, `{"name":"` + strings.Repeat("n", 127) + `"}`, `{"name":"` + strings.Repeat("n", 128) + `"}`, `{"name":"` + strings.Repeat("n", 130) + `"}`, `{"name":"` + strings.Repeat("n", 150) + `"}`, `{"name":"` + strings.Repeat("n", 190) + `"}`, `{"name":"` + strings.Repeat("n", 196) + `"}`, `{"name":"` + strings.Repeat("n", 197) + `"}`, `{"name":"` + strings.Repeat("n", 198) + `"}`, `{"name":"` + strings.Repeat("n", 126) + `"}`, `{"name":"` + strings.Repeat("é", 125) + `"}`, `{"name":"` + strings.Repeat("é", 126) + `"}`, `{"interface":{"displayName":null}}`, `{"interface":{"displayName":"\u00a0x\u00a0"}}`, `{"interface":{"displayName":" a\tb\nc "}}`,
		`{"interface":{"displayName":["x"]}}`, `{"interface":{"shortDescription":5,"displayName":"x"}}`, `{"interface":{"screenshots":5,"capabilities":5,"defaultPrompt":5,"displayName":"x"}}`, `{"skills":null}`, `{"skills":{}}`, `{"description":null,"version":null,"keywords":null,"hooks":null}`, `{"hooks":"./x"}`, `{"hooks":{"hooks":5}}`, `{"version":"1","version":"2"}`, `{"description":"1","description":"2"}`, `{"skills":"./a","skills":"./b"}`, `{"interface":{},"interface":{}}`, `{"apps":"./a.json","apps":"./a.json"}`, `{"interface":{"x":1,"x":2}}`, `{"interface":{"displayName":"\ud800"}}`,
		`{"interface":{"displayName":"\ud83d\ude00\\ud800"}}`, `{"apps":"\ud800"}`, `{"mcpServers":["\udc00"]}`, `{"mcpServers":{"a":"\ud800"}}`, `{"mcpServers":{"\ud800\ud800":1}}`, `{"mcpServers":{"a":1,"b":2,"a":3}}`, `{"mcpServers":{"a":1e05,"b":1E-05,"c":1e+5,"d":0e0,"e":-0e0,"f":-0.00,"g":0.10}}`,
		`{"mcpServers":{"a":` + strings.Repeat("[", 125) + strings.Repeat("]", 125) + `}}`, `{"mcpServers":{"a":` + strings.Repeat("[", 126) + strings.Repeat("]", 126) + `}}`, `{"mcpServers":{"a":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}}`, `{"mcpServers":{"a":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}}`,
		`{"mcpServers":` + strings.Repeat("[", 130) + strings.Repeat("]", 130) + `}`, `{"interface":["a","b"]}`, `{"interface":[5]}`, `{"apps":"./a.json\u0000"}`, `{"mcpServers":"./a b.json"}`, `{"mcpServers":"./m.json?x"}`, `{"mcpServers":"./m%2Ejson"}`, `{"mcpServers":"./m.json#x"}`, `{"mcpServers":"./skills/../m.json"}`,
		`{"mcpServers":"./..m.json"}`, `{"mcpServers":"./.../m.json"}`, `{"mcpServers":".\\m.json"}`, `{"mcpServers":"./x\\..\\m.json"}`, `{"mcpServers":"./~/m.json"}`, `{"mcpServers":"./é"}`, `{"agents":5,"commands":5}`,
		`{"x":` + strings.Repeat("[", 120) + strings.Repeat("]", 120) + `}`, `{"x":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`, `{"x":` + strings.Repeat("[", 140) + strings.Repeat("]", 140) + `}`, `{"x":01}`, `{"x":1.}`, `{"x":1e400}`, `{"x":NaN}`, "{\"x\":\"\t\"}", "{\"x\":\"\x7f\"}", "{\"\\ud800\":1}",
	}
	return list
}

// playManifestsBelow looks for plugins with more than one manifest.
func playManifestsBelow(p *player) {
	f := newFinder(p)
	for i, first := range []string{"\xff", "", "broken", `{"name":5}`, `{"name":""}`, `{"name":"n"}`, strings.Repeat(" ", 1<<20) + "{}", "dir", "pipe", "none", "link"} {
		dir := fmt.Sprintf("n%02d", i)
		for _, place := range []string{"root/", "codex/skills/", "codex/plugins/cache/mkt/"} {
			below := place + dir
			if strings.Contains(place, "cache") {
				below += "/1.0.0"
			}
			f.put(below+"/.claude-plugin/plugin.json", `{"name":"second"}`)
			f.skill(below+"/skills/s", "name: s\ndescription: d")
			switch first {
			case "dir":
				f.dir(below + "/.codex-plugin/plugin.json")
			case "pipe":
				f.link(below+"/.codex-plugin/plugin.json", "/dev/null")
			case "none":
				f.link(below+"/.codex-plugin/plugin.json", "nowhere")
			case "link":
				f.put(below+"/other.json", `{"name":"linked"}`)
				f.link(below+"/.codex-plugin/plugin.json", "../other.json")
			default:
				f.put(below+"/.codex-plugin/plugin.json", first)
			}
		}
		f.roots(fmt.Sprintf("root %s %q", dir, shorten(first)), "@/root/"+dir)
		f.roots(fmt.Sprintf("skills of %s", dir), "@/root/"+dir+"/skills")
	}
	f.roots("all")
	f.put("root/.codex-plugin/plugin.json", "\xff")
	f.roots("only a bad one at the root")
	f.put("root/.claude-plugin/plugin.json", `{"name":"second"}`)
	f.roots("bad at the root")
	f.remove("root/.codex-plugin")
	f.put("codex/.codex-plugin/plugin.json", "\xff")
	f.put("codex/.claude-plugin/plugin.json", `{"name":"around"}`)
	f.capabilities("capabilities")
	f.reset()
	f.put("root/.mcp.json", "usual")
	f.put("root/m.json", "named")
	for _, text := range manifests() {
		f.putRaw("root/.codex-plugin/plugin.json", text)
		f.roots(fmt.Sprintf("files of %q", shorten(text)))
	}
}
