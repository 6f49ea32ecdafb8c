//go:build interop

package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// talker is a script that answers each line: "o TEXT" prints on stdout, "e TEXT" on stderr, "x" ends it. A test sends one line at a
// time and awaits its output, so the numbers of the chunks are always the same.
const talker = `while read -r w t; do case $w in o) printf %s "$t";; e) printf %s "$t" >&2;; x) exit $t;; esac; done`

// startTalker starts a talker that has printed one, two (on stderr), three.
func startTalker(c *conn, id string) {
	c.start(id, sh(talker), `"pipeStdin":true`)
	for i, line := range []string{"o one", "e two", "o three"} {
		c.write(id, fmt.Sprint(i), line+"\n")
		c.seen(id, line[2:])
	}
}

var readExchanges = []exchange{
	{name: "read/paging", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		startTalker(c, "r")
		readPages(c, "running")
		c.write("r", "end", "x 4\n")
		c.gone("r", "process/closed")
		readPages(c, "closed")
	}},
	{name: "read/long poll", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		startTalker(c, "r")
		c.timed("data is there", `{"processId":"r","waitMs":60000}`)
		c.timed("nothing comes", `{"processId":"r","afterSeq":3,"waitMs":1500}`)
		c.timed("no waiting", `{"processId":"r","afterSeq":3,"waitMs":0}`)
		c.timed("beyond the end", `{"processId":"r","afterSeq":99,"waitMs":1500}`)
		c.timed("unknown process", `{"processId":"nobody","waitMs":60000}`)
		c.write("r", "end", "x 4\n")
		c.gone("r", "process/closed")
		c.timed("closed, at the end", `{"processId":"r","afterSeq":5,"waitMs":60000}`)
		c.timed("closed, beyond the end", `{"processId":"r","afterSeq":50,"waitMs":60000}`)
	}},
	{name: "read/woken", compares: wholeReplies, flags: []string{"--concurrent-requests", "4"}, play: func(p *player) {
		c := p.open()
		startTalker(c, "r")
		poll := c.send("process/read", `{"processId":"r","afterSeq":3,"waitMs":60000}`)
		c.write("r", "4", "o four\n")
		p.note("by output", withoutID(c.answer(poll)))
		poll = c.send("process/read", `{"processId":"r","afterSeq":6,"waitMs":60000}`)
		c.write("r", "5", "x 0\n")
		p.note("by close", withoutID(c.answer(poll)))
	}},
	{name: "read/exited but open", compares: wholeReplies, flags: []string{"--concurrent-requests", "4"}, play: func(p *player) {
		c := p.open()
		late := p.newGate("open")
		c.start("r", sh(`echo early; (`+late.awaited()+`; echo late) & read x; exit 3`), `"pipeStdin":true`)
		c.seen("r", "early")
		c.write("r", "1", "go\n")
		c.gone("r", "process/exited")
		c.timed("an event newer than the cursor", `{"processId":"r","afterSeq":1,"waitMs":60000}`)
		c.timed("at the exit it waits", `{"processId":"r","afterSeq":2,"waitMs":1500}`)
		poll := c.send("process/read", `{"processId":"r","afterSeq":2,"waitMs":60000}`)
		late.open(p)
		got := withoutID(c.answer(poll))
		p.note("woken by late output", strings.Contains(got, "bGF0ZQo="))
		c.process("end", "r")
	}},
	{name: "read/all of it", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.start("r", sh(`head -c 200000 /dev/zero | tr '\000' a`), "")
		c.gone("r", "process/closed")
		p.note("joined", readAll(c, "r", 50000))
		p.note("joined again", readAll(c, "r", 1))
	}},
}

// readPages asks for every kind of page of a talker's output.
func readPages(c *conn, when string) {
	for _, params := range []string{
		`{"processId":"r"}`, `{"processId":"r","afterSeq":0}`, `{"processId":"r","afterSeq":1}`, `{"processId":"r","afterSeq":3}`,
		`{"processId":"r","afterSeq":4}`, `{"processId":"r","afterSeq":5}`, `{"processId":"r","afterSeq":100}`,
		`{"processId":"r","maxBytes":0}`, `{"processId":"r","maxBytes":1}`, `{"processId":"r","maxBytes":3}`,
		`{"processId":"r","maxBytes":4}`, `{"processId":"r","maxBytes":6}`, `{"processId":"r","maxBytes":10}`,
		`{"processId":"r","maxBytes":11}`, `{"processId":"r","maxBytes":100}`, `{"processId":"r","afterSeq":1,"maxBytes":4}`,
		`{"processId":"r","afterSeq":3,"maxBytes":4}`, `{"processId":"r","afterSeq":9,"maxBytes":0}`,
	} {
		c.ask(when+" "+params, "process/read", params)
	}
}

// readAll reads a closed process page by page and summarises its output.
func readAll(c *conn, id string, maxBytes int) string {
	var events []processEvent
	after := 0
	for range 1000 {
		answer := decodeRead(c.call("process/read", fmt.Sprintf(`{"processId":%q,"afterSeq":%d,"maxBytes":%d}`, id, after, maxBytes)))
		if len(answer.Result.Chunks) == 0 {
			break
		}
		for _, chunk := range answer.Result.Chunks {
			e := processEvent{Method: "process/output"}
			e.Params.Seq, e.Params.Stream, e.Params.Chunk = chunk.Seq, chunk.Stream, chunk.Chunk
			events = append(events, e)
			if chunk.Seq <= after {
				return fmt.Sprintf("chunk %d after %d", chunk.Seq, after)
			}
			after = chunk.Seq
		}
		if answer.Result.NextSeq != after+1 {
			return fmt.Sprintf("nextSeq %d after chunk %d", answer.Result.NextSeq, after)
		}
	}
	return shorten(outputOf(events, "stdout"))
}

// timed records a read and whether it took the whole waiting time. For a read that must be answered at once, that time is longer
// than the time limit of an answer.
func (c *conn) timed(label, params string) {
	var asked struct{ WaitMs int }
	json.Unmarshal([]byte(params), &asked)
	begin := time.Now()
	got := withoutID(c.call("process/read", params))
	pace := "at once"
	if limit := time.Duration(asked.WaitMs) * time.Millisecond; limit > 0 && time.Since(begin) >= limit {
		pace = "waited"
	}
	c.p.note(label, pace+" "+got)
}

var inputExchanges = []exchange{
	{name: "write/statuses", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.start("closed", sh("sleep 60"), "")
		p.note("no stdin", withoutID(c.write("closed", "1", "x")))
		p.note("unknown", withoutID(c.write("nobody", "1", "x")))
		c.ask("unknown and empty writeId", "process/write", `{"processId":"nobody","chunk":"","writeId":""}`)
		c.start("open", sh("read x; echo got $x; read y; echo got $y"), `"pipeStdin":true`)
		p.note("empty chunk", withoutID(c.write("open", "0", "")))
		p.note("accepted", withoutID(c.write("open", "1", "first\n")))
		c.seen("open", "first")
		p.note("same id, same bytes", withoutID(c.write("open", "1", "first\n")))
		p.note("next", withoutID(c.write("open", "2", "second\n")))
		c.process("end", "open")
		p.note("known id after exit", withoutID(c.write("open", "2", "second\n")))
		c.call("process/terminate", `{"processId":"closed"}`)
	}},
	{name: "write/after exit", compares: wholeReplies, differs: []difference{
		{"after exit", "a write that no process can read is not accepted", `{"result":{"status":"stdinClosed"}}`},
	}, play: func(p *player) {
		c := p.open()
		c.start("w", sh("read x"), `"pipeStdin":true`)
		c.write("w", "1", "x\n")
		c.gone("w", "process/closed")
		p.note("after exit", withoutID(c.write("w", "2", "y\n")))
	}},
	{name: "write/other bytes under a known id", compares: errorCodes, differs: []difference{
		{"other bytes", "the same id with other bytes is a mistake of the caller", `{"error":{"code":-32602}}`},
	}, play: func(p *player) {
		c := p.open()
		c.start("w", sh("read x; echo $x; read y; echo $y"), `"pipeStdin":true`)
		c.write("w", "1", "one\n")
		c.seen("w", "one")
		p.note("other bytes", withoutID(c.write("w", "1", "other\n")))
		c.write("w", "2", "two\n")
		c.process("nothing of it was written", "w")
	}},
	{name: "write/order of pipelined writes", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.start("w", sh("head -c 1000"), `"pipeStdin":true`)
		var ids []string
		for i := range 100 {
			ids = append(ids, c.send("process/write", fmt.Sprintf(`{"processId":"w","writeId":"%d","chunk":"%s"}`, i,
				base64Of(fmt.Sprintf("line %04d\n", i)))))
		}
		for _, id := range ids {
			if got := withoutID(c.answer(id)); got != `{"result":{"status":"accepted"}}` {
				p.note("write "+id, got)
			}
		}
		c.process("end", "w")
	}},
	{name: "write/terminal", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.start("w", []string{"/bin/cat"}, `"tty":true`)
		p.note("write", withoutID(c.write("w", "1", "hello\n")))
		c.seen("w", "hello\r\nhello\r\n")
		p.note("end of file", withoutID(c.write("w", "2", "\x04")))
		c.process("end", "w")
		c.start("i", sh(`trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done`), `"tty":true`)
		c.seen("i", "ready\r\n") // the character drops output that has not been read
		c.write("i", "1", "\x03")
		c.process("interrupt character", "i")
	}},
}

// A gate is a file that one side makes and the other waits for. Unlike a pipe, a
// gate never blocks a test whose process has gone.
type gate string

// newGate names a gate that is not there yet.
func (p *player) newGate(name string) gate {
	path := filepath.Join(suite.work, name+"-"+string(p.who))
	os.Remove(path)
	return gate(path)
}

// awaited is shell text that waits for the gate, opened shell text that makes it.
func (g gate) awaited() string { return "until [ -e " + string(g) + " ]; do sleep 0.02; done" }
func (g gate) opened() string  { return ": > " + string(g) }

// open lets the waiting process go on.
func (g gate) open(p *player) {
	if err := os.WriteFile(string(g), nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// await waits until a process has opened the gate.
func (g gate) await(p *player) {
	p.t.Helper()
	for deadline := time.Now().Add(timeLimit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(string(g)); err == nil {
			return
		}
	}
	p.t.Errorf("%s: the process never reached %s", p.who, filepath.Base(string(g)))
}
