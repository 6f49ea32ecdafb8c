//go:build interop

package interop_test

import (
	"encoding/json"
	"strings"
)

// paramsExchanges hold every class of undecodable params on the process methods.
var paramsExchanges = []exchange{
	{name: "params/process start", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		for _, field := range strings.Fields("processId argv cwd env tty") {
			c.ask("without "+field, "process/start", without(startParams("x", []string{"true"}, ""), field))
		}
		for _, extra := range []string{
			`"processId":null`, `"processId":5`, `"argv":"ls"`, `"argv":null`, `"argv":[1]`, `"argv":[null]`, `"argv":{}`,
			`"cwd":null`, `"cwd":5`, `"env":null`, `"env":[]`, `"env":{"A":1}`, `"env":{"A":null}`, `"tty":null`, `"tty":"yes"`,
			`"tty":1`, `"pipeStdin":null`, `"pipeStdin":"x"`, `"arg0":5`, `"arg0":[]`, `"enforceManagedNetwork":null`,
			`"enforceManagedNetwork":3`, `"metadata":5`, `"metadata":{"threadId":5}`, `"metadata":{"toolCallId":[]}`,
			`"envPolicy":5`, `"envPolicy":{}`, `"sandbox":5`, `"sandbox":{}`,
		} {
			c.ask(extra, "process/start", startParams("x", []string{"true"}, extra))
		}
		for _, params := range []string{`null`, `5`, `"x"`, `true`} {
			c.ask("params "+params, "process/start", params)
		}
		c.tell("no params", `{"id":1000,"method":"process/start"}`, `1000`)
		c.ask("nothing was started", "process/read", `{"processId":"x"}`)
	}},
	{name: "params/environment policy", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		full := `{"inherit":"all","ignoreDefaultExcludes":true,"exclude":[],"set":{},"includeOnly":[]}`
		for _, field := range strings.Fields("inherit ignoreDefaultExcludes exclude set includeOnly") {
			c.ask("without "+field, "process/start", startParams("x", []string{"true"}, `"envPolicy":`+without(full, field)))
		}
		for _, change := range []string{`"inherit":"xx"`, `"inherit":null`, `"inherit":5`, `"ignoreDefaultExcludes":null`,
			`"exclude":null`, `"exclude":"A"`, `"exclude":[5]`, `"set":null`, `"set":{"A":5}`, `"includeOnly":{}`} {
			name, _, _ := strings.Cut(change[1:], `"`)
			policy := strings.TrimSuffix(without(full, name), "}") + "," + change + "}"
			c.ask(change, "process/start", startParams("x", []string{"true"}, `"envPolicy":`+policy))
		}
	}},
	{name: "params/cwd", compares: wholeReplies, differs: []difference{{`"/"`,
		"a plain absolute path is accepted as cwd", `{"result":{"processId":"\"/\"","sandboxType":"none"}}`}},
		play: func(p *player) {
			c := p.open()
			for _, cwd := range []string{`""`, `"tmp"`, `"/"`, `"http://x/y"`, `"file:///tmp?q"`, `"file:///tmp?"`, `"file:///tmp#f"`,
				`"file:///tmp#"`, `"file:///C:/x"`, `"file:///c:/x"`, `"file://server/share"`, `"file:///a%00b"`} {
				c.ask(cwd, "process/start", startParams(cwd, []string{"/bin/true"}, `"cwd":`+cwd))
			}
		}},
	{name: "params/cwd forms", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		for _, cwd := range []string{"file:///usr/bin", "file:/usr/bin", "FILE:///usr/bin", "file://localhost/usr/bin",
			"file:///usr/./bin/../bin", "file:///usr/%62in", "file:///usr//bin/", "file:///", "file:///usr/%2e%2e/usr"} {
			c.start(cwd, sh("pwd -P"), `"cwd":`+quote(cwd))
			c.process(cwd, cwd)
		}
	}},
	{name: "params/process read", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.start("r", sh("printf x; read y"), `"pipeStdin":true`)
		c.seen("r", "x") // before the exit, so that it has number 1
		c.write("r", "1", "\n")
		c.gone("r", "process/closed")
		for _, params := range []string{`{}`, `null`, `{"processId":5}`, `{"processId":null}`,
			`{"processId":"r","afterSeq":-1}`, `{"processId":"r","afterSeq":1.5}`, `{"processId":"r","afterSeq":1.0}`,
			`{"processId":"r","afterSeq":1e1}`, `{"processId":"r","afterSeq":"1"}`, `{"processId":"r","afterSeq":true}`,
			`{"processId":"r","maxBytes":-5}`, `{"processId":"r","maxBytes":"x"}`, `{"processId":"r","maxBytes":[]}`,
			`{"processId":"r","waitMs":-1}`, `{"processId":"r","waitMs":0.5}`, `{"processId":"r","waitMs":{}}`,
			`{"processId":"nobody"}`, `{"processId":""}`} {
			c.ask(params, "process/read", params)
		}
		c.ask("largest numbers", "process/read",
			`{"processId":"r","afterSeq":18446744073709551615,"maxBytes":18446744073709551615,"waitMs":18446744073709551615}`)
		c.ask("nulls", "process/read", `{"processId":"r","afterSeq":null,"maxBytes":null,"waitMs":null}`)
	}},
	{name: "params/process write", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		for _, params := range []string{`{}`, `null`, `{"processId":"w","chunk":"eA=="}`, `{"processId":"w","writeId":"1"}`,
			`{"chunk":"eA==","writeId":"1"}`, `{"processId":"w","chunk":5,"writeId":"1"}`, `{"processId":"w","chunk":null,"writeId":"1"}`,
			`{"processId":"w","chunk":"eA==","writeId":5}`, `{"processId":"w","chunk":"eA==","writeId":null}`,
			`{"processId":"w","chunk":"eA==","writeId":""}`, `{"processId":"w","chunk":"@@@@","writeId":"1"}`,
			`{"processId":"w","chunk":"eA=","writeId":"1"}`, `{"processId":"w","chunk":"eA","writeId":"1"}`,
			`{"processId":"w","chunk":"aGl","writeId":"1"}`, `{"processId":"w","chunk":"aGl=","writeId":"1"}`,
			`{"processId":"w","chunk":"e A=","writeId":"1"}`, `{"processId":"w","chunk":"eA==\n","writeId":"1"}`,
			`{"processId":"w","chunk":"__-_","writeId":"1"}`, `{"processId":"w","chunk":"eA==","writeId":"1"}`} {
			c.ask(params, "process/write", params)
		}
	}},
	{name: "params/process signal and terminate", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		for _, params := range []string{`{}`, `null`, `{"processId":"s"}`, `{"processId":5,"signal":"interrupt"}`,
			`{"processId":"s","signal":"kill"}`, `{"processId":"s","signal":"INTERRUPT"}`, `{"processId":"s","signal":null}`,
			`{"processId":"s","signal":2}`, `{"processId":"s","signal":"interrupt"}`, `{"signal":"interrupt"}`} {
			c.ask("signal "+params, "process/signal", params)
		}
		for _, params := range []string{`{}`, `null`, `"s"`, `{"processId":5}`, `{"processId":null}`, `{"processId":"s"}`,
			`{"processId":"s","more":1}`} {
			c.ask("terminate "+params, "process/terminate", params)
		}
	}},
	{name: "params/methods without parameters", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		for _, params := range []string{`null`, `{}`, `{"a":1}`, `[]`, `[1]`, `5`, `"x"`, `false`} {
			c.ask("status "+params, "environment/status", params)
			c.ask("info "+params, "environment/info", params)
		}
	}},
}

// without drops one member of a JSON object.
func without(object, field string) string {
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(object), &m); err != nil {
		panic(err)
	}
	delete(m, field)
	return canonical(m)
}

func quote(s string) string { return canonical(s) }
