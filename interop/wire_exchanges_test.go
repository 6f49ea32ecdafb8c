//go:build interop

package interop_test

import (
	"fmt"
	"strings"

	"github.com/tetherexec/tether/internal/tethertest"
)

const (
	helloParams    = `{"clientName":"interop","resumeSessionId":null}`
	unknownSession = "00000000-0000-4000-8000-000000000000" // a session id that no server gives out
	families       = `process/start process/read process/write process/signal process/terminate fs/getMetadata ` +
		`environment/info environment/status`
)

// goodParams has valid parameters for each method, so that only the state of the connection decides.
var goodParams = map[string]string{
	"process/start":      startParams("p", []string{"true"}, ""),
	"process/read":       `{"processId":"p"}`,
	"process/write":      `{"processId":"p","chunk":"","writeId":"1"}`,
	"process/signal":     `{"processId":"p","signal":"interrupt"}`,
	"process/terminate":  `{"processId":"p"}`,
	"fs/getMetadata":     `{"path":"$CWD"}`,
	"environment/info":   `null`,
	"environment/status": `null`,
}

var handshakeExchanges = []exchange{
	{name: "handshake/ordinary", compares: wholeReplies, play: func(p *player) {
		c := p.dial()
		c.ask("initialize", "initialize", helloParams)
		c.text(`{"method":"initialized","params":{}}`)
		c.ask("status", "environment/status", `null`)
		c.ask("info", "environment/info", `null`)
	}},
	{name: "handshake/before initialize", compares: wholeReplies, play: func(p *player) {
		c := p.dial()
		for _, m := range strings.Fields(families) {
			c.ask(m, m, goodParams[m])
		}
		c.ask("then initialize", "initialize", helloParams)
	}},
	{name: "handshake/before initialized", compares: wholeReplies, play: func(p *player) {
		c := p.dial()
		c.initialize("")
		for _, m := range strings.Fields(families) {
			c.ask(m, m, goodParams[m])
		}
		c.text(`{"method":"initialized"}`)
		c.ask("then status", "environment/status", `{}`)
	}},
	{name: "handshake/bad params win over state", compares: wholeReplies, play: func(p *player) {
		c := p.dial()
		for _, m := range strings.Fields(families) {
			c.ask(m+" before initialize", m, `"text"`)
		}
		c.ask("initialize without clientName", "initialize", `{}`)
		c.ask("initialize with null", "initialize", `null`)
		c.ask("initialize with a number", "initialize", `{"clientName":5}`)
		c.ask("initialize with a numeric session", "initialize", `{"clientName":"x","resumeSessionId":5}`)
		c.ask("unknown method", "no/such", `{}`)
		c.ask("initialized as a request", "initialized", `{}`)
	}},
	{name: "handshake/initialize twice", compares: wholeReplies, play: func(p *player) {
		c := p.dial()
		c.ask("first", "initialize", helloParams)
		c.ask("second, before initialized", "initialize", helloParams)
		c.text(`{"method":"initialized","params":{}}`)
		c.ask("third", "initialize", helloParams)
		c.ask("fourth, undecodable", "initialize", `{}`)
		c.ask("still usable", "environment/status", `null`)
	}},
	{name: "handshake/odd values", compares: wholeReplies, play: func(p *player) {
		p.dial().ask("empty name", "initialize", `{"clientName":""}`)
		p.dial().ask("unknown members", "initialize", `{"clientName":"x","resumeSessionId":null,"more":[1,{"a":2}]}`)
		c := p.dial()
		c.ask("unknown session", "initialize", `{"clientName":"x","resumeSessionId":"`+unknownSession+`"}`)
		c.ask("session that is no UUID", "initialize", `{"clientName":"x","resumeSessionId":"nonsense"}`)
		c.ask("empty session", "initialize", `{"clientName":"x","resumeSessionId":""}`)
		c.ask("after failures", "initialize", helloParams)
		c.text(`{"method":"initialized","params":"anything"}`)
		c.text(`{"method":"initialized","params":[1]}`)
		c.ask("repeated initialized is ignored", "environment/status", `null`)
	}},
	{name: "handshake/initialized too early", compares: wholeReplies, differs: []difference{
		bye("end", 1008)},
		play: func(p *player) {
			c := p.dial()
			c.text(`{"method":"initialized","params":{}}`)
			c.end("end")
		}},
}

var envelopeExchanges = []exchange{
	{name: "envelope/ids", compares: errorCodes, play: func(p *player) {
		c := p.open()
		for _, id := range []string{`0`, `-1`, `-9223372036854775808`, `9223372036854775807`, `""`, `"a"`, `"ä\n"`,
			`1234567890123456789`} {
			c.tell("id "+id, `{"id":`+id+`,"method":"environment/status","params":null}`, id)
		}
		for _, id := range []string{`null`, `true`, `[1]`, `{}`, `1.5`, `1.0`, `1e2`, `9223372036854775808`,
			`-9223372036854775809`, `99999999999999999999999`} {
			c.tell("bad id "+id, `{"id":`+id+`,"method":"environment/status","params":null}`, `-1`)
		}
		c.alive("afterwards")
	}},
	{name: "envelope/malformed", compares: errorCodes, play: playMalformed},
	{name: "envelope/malformed texts", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.tell("array", `[]`, `-1`)
		c.tell("number", `5`, `-1`)
		c.tell("nothing in it", `{}`, `-1`)
		c.tell("result without id", `{"result":1}`, `-1`)
		c.tell("id of the wrong type", `{"id":true,"method":"x"}`, `-1`)
		c.tell("method of the wrong type", `{"id":1,"method":5}`, `-1`)
		c.alive("afterwards")
	}},
	{name: "envelope/accepted forms", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.tell("jsonrpc member", `{"jsonrpc":"2.0","id":1,"method":"environment/status"}`, `1`)
		c.tell("other order, white space", " \n{ \"params\" : null , \"method\":\"environment/status\", \"id\":2 }\t\r\n", `2`)
		c.tell("unknown members", `{"id":3,"method":"environment/status","extra":{"a":[1,2]}}`, `3`)
		c.tell("trace null", `{"id":4,"method":"environment/status","trace":null}`, `4`)
		c.tell("trace empty", `{"id":5,"method":"environment/status","trace":{}}`, `5`)
		c.tell("trace with junk", `{"id":6,"method":"environment/status","trace":{"traceparent":"junk","tracestate":null}}`, `6`)
		c.tell("escaped method", `{"id":7,"method":"environment\/st\u0061tus"}`, `7`)
		c.tell("null params member", `{"id":8,"method":"environment/status","params":null}`, `8`)
		c.tell("empty params", `{"id":9,"method":"environment/status","params":{}}`, `9`)
		c.frame(0x80|tethertest.OpBinary, true, `{"id":10,"method":"environment/status"}`)
		p.note("binary frame", c.answer(`10`))
		c.frame(tethertest.OpText, true, `{"id":11,"method":`)
		c.frame(0x80|tethertest.OpPing, true, "between fragments")
		c.frame(tethertest.OpContinuation, true, `"environment/`)
		c.frame(0x80|tethertest.OpContinuation, true, `status"}`)
		p.note("fragmented", c.answer(`11`))
	}},
	{name: "envelope/huge integers", compares: errorCodes, play: func(p *player) {
		c := p.open()
		for i, number := range []string{"18446744073709551615", "18446744073709551616", "-9223372036854775809",
			"99999999999999999999999999", "340282366920938463463374607431768211456", "1e400", "0.1"} {
			id := fmt.Sprint(5000 + i)
			c.text(`{"id":` + id + `,"method":"no/such","params":{"a":[` + number + `]}}`)
			p.note(number, c.answer(id, `-1`))
		}
	}},
	{name: "envelope/limits", compares: errorCodes, play: func(p *player) {
		c := p.open()
		nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
		c.tell("126 deep in params", `{"id":1,"method":"no/such","params":`+nested(126)+`}`, `1`)
		c.tell("127 deep in params", `{"id":2,"method":"no/such","params":`+nested(127)+`}`, `-1`)
		values := func(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }
		// The message, its id, its method and the list itself count too.
		c.tell("262144 values", `{"id":3,"method":"no/such","params":`+values(262144-4)+`}`, `3`)
		c.tell("262145 values", `{"id":4,"method":"no/such","params":`+values(262144-3)+`}`, `-1`)
		c.tell("long unknown method", `{"id":5,"method":"`+strings.Repeat("m", 2000)+`"}`, `5`)
	}},
	{name: "envelope/unexpected messages", compares: wholeReplies, differs: goodbyes(
		"unknown notification", "request method as a notification", "response to nothing", "error to nothing",
		"response with a string id"),
		play: func(p *player) {
			c := p.open()
			c.ask("unknown method", "no/such", `{"a":1}`)
			c.ask("resize does not exist", "process/resize", `{}`)
			c.ask("empty method", "", `null`)
			for _, row := range [][2]string{
				{"unknown notification", `{"method":"no/such","params":{}}`},
				{"request method as a notification", `{"method":"environment/status"}`},
				{"response to nothing", `{"id":99,"result":{}}`},
				{"error to nothing", `{"id":99,"error":{"code":-1,"message":"x"}}`},
				{"response with a string id", `{"id":"x","result":null}`},
			} {
				c := p.open()
				c.text(row[1])
				c.end(row[0])
			}
		}},
	{name: "envelope/frames against the rules", compares: wholeReplies, differs: []difference{
		bye("unmasked", 1002), bye("reserved bit", 1002), bye("unknown opcode", 1002), bye("stray continuation", 1002),
		bye("fragmented ping", 1002), bye("text that is not UTF-8", 1007),
		{"after a close frame", "tether answers a close frame with one, as the standard asks", "close frame 1000"}},
		play: func(p *player) {
			for _, row := range []struct {
				label   string
				first   byte
				masked  bool
				payload string
			}{
				{"unmasked", 0x80 | tethertest.OpText, false, `{}`},
				{"reserved bit", 0xC0 | tethertest.OpText, true, `{}`},
				{"unknown opcode", 0x80 | 0x3, true, `{}`},
				{"stray continuation", 0x80 | tethertest.OpContinuation, true, `{}`},
				{"fragmented ping", tethertest.OpPing, true, ``},
				{"text that is not UTF-8", 0x80 | tethertest.OpText, true, "{\"id\":\"\xff\"}"},
				{"after a close frame", 0x80 | tethertest.OpClose, true, "\x03\xe8"},
			} {
				c := p.open()
				c.frame(row.first, row.masked, row.payload)
				c.end(row.label)
			}
		}},
	{name: "envelope/pipelined answers keep their order", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		var order []string
		for range 50 {
			c.send("environment/status", `null`)
		}
		last := fmt.Sprint(c.nextID)
		ok := c.await(timeLimit, func() bool { return len(c.replies[last]) > 0 })
		c.mu.Lock()
		for id := 2; id <= c.nextID; id++ {
			if len(c.replies[fmt.Sprint(id)]) == 0 {
				order = append(order, fmt.Sprint(id))
			}
		}
		c.mu.Unlock()
		p.note("missing when the last has come", fmt.Sprint(ok, order))
	}},
}

// playMalformed sends malformed messages; each is answered with id -1 and the connection stays.
func playMalformed(p *player) {
	c := p.open()
	for _, row := range [][2]string{
		{"empty", ``}, {"word", `hello`}, {"truncated", `{"id":1`}, {"two values", `{"id":1,"method":"x"} {}`},
		{"array", `[{"id":1,"method":"x"}]`}, {"string", `"x"`}, {"null", `null`}, {"empty object", `{}`},
		{"only id", `{"id":1}`}, {"result without id", `{"result":{}}`}, {"error without id", `{"error":{"code":1,"message":"x"}}`},
		{"method is a number", `{"id":1,"method":5}`}, {"method is null", `{"id":1,"method":null}`},
		{"error is a string", `{"id":1,"error":"x"}`}, {"error without code", `{"id":1,"error":{"message":"x"}}`},
		{"duplicate key", `{"id":1,"id":2,"method":"x"}`},
		{"duplicate key below", `{"id":1,"method":"x","params":{"a":1,"a":2}}`},
		{"duplicate key, escaped", `{"id":1,"method":"x","params":{"a":1,"\u0061":2}}`},
		{"byte order mark", "\ufeff" + `{"id":1,"method":"x"}`}, {"comment", `{"id":1,/* c */"method":"x"}`},
		{"trailing comma", `{"id":1,"method":"x",}`}, {"NaN", `{"id":1,"method":"x","params":NaN}`},
		{"lone surrogate", `{"id":1,"method":"x","params":"\ud800"}`}, {"single quotes", `{'id':1}`},
		{"leading zero", `{"id":01,"method":"x"}`}, {"control character", "{\"id\":1,\"method\":\"a\nb\"}"},
		{"trace is a string", `{"id":1,"method":"x","trace":"t"}`},
	} {
		c.tell(row[0], row[1], `-1`)
	}
	c.tell("a good one afterwards", `{"id":2,"method":"environment/status"}`, `2`)
}

func bye(label string, code int) difference {
	return difference{label, "tether says goodbye with a close frame on protocol errors", fmt.Sprintf("close frame %d", code)}
}

func goodbyes(labels ...string) []difference {
	var all []difference
	for _, l := range labels {
		all = append(all, bye(l, 1008))
	}
	return all
}
